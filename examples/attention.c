/* The smallest program: causal attention over 4 tokens with 2 heads of dim 8. */
#include <rapt/rapt.h>
#include <stdio.h>

int main(void) {
  float q[4 * 2 * 8], k[4 * 2 * 8], v[4 * 2 * 8], out[4 * 2 * 8];
  for (int i = 0; i < 64; ++i) {
    q[i] = k[i] = 0.5f;
    v[i] = (float)(i / 16); /* the token */
  }
  const int64_t size[4] = {1, 4, 2, 8};
  rapt_arguments arguments;
  rapt_arguments_init(&arguments, sizeof arguments);
  rapt_tensor_dense(&arguments.q, q, RAPT_DTYPE_F32, 4, size);
  rapt_tensor_dense(&arguments.k, k, RAPT_DTYPE_F32, 4, size);
  rapt_tensor_dense(&arguments.v, v, RAPT_DTYPE_F32, 4, size);
  rapt_tensor_dense(&arguments.out, out, RAPT_DTYPE_F32, 4, size);
  rapt_options options;
  rapt_options_init(&options, sizeof options);
  options.causal = 1;
  if (rapt_attention(&arguments, &options, "cpu") != RAPT_OK) {
    fprintf(stderr, "%s\n", rapt_last_error());
    return 1;
  }
  for (int token = 0; token < 4; ++token) printf("%g ", (double)out[token * 16]);
  printf("(expected: 0 0.5 1 1.5)\n");
  return 0;
}
