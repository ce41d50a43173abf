/* One query that sees two equal keys: the result is the mean of their values. */
#include <math.h>
#include <stdio.h>

#include "rapt/rapt.h"

int main(void) {
  const float q[2] = {1, 0};
  const float k[4] = {1, 0, 1, 0};
  const float v[4] = {1, 2, 3, 4};
  float out[2] = {0, 0};
  const int64_t one_row[4] = {1, 1, 1, 2};
  const int64_t two_rows[4] = {1, 2, 1, 2};

  rapt_arguments arguments;
  if (rapt_arguments_init(&arguments, sizeof arguments) != RAPT_OK ||
      rapt_tensor_dense(&arguments.q, q, RAPT_DTYPE_F32, 4, one_row) != RAPT_OK ||
      rapt_tensor_dense(&arguments.k, k, RAPT_DTYPE_F32, 4, two_rows) != RAPT_OK ||
      rapt_tensor_dense(&arguments.v, v, RAPT_DTYPE_F32, 4, two_rows) != RAPT_OK ||
      rapt_tensor_dense(&arguments.out, out, RAPT_DTYPE_F32, 4, one_row) != RAPT_OK ||
      rapt_attention(&arguments, NULL, "cpu") != RAPT_OK) {
    fprintf(stderr, "%s\n", rapt_last_error());
    return 1;
  }
  printf("%g %g\n", out[0], out[1]);
  if (fabsf(out[0] - 2) > 1e-5F || fabsf(out[1] - 3) > 1e-5F) return 1;

  rapt_plan* plan = NULL;
  return rapt_plan_create_from_problem("not a problem", "cpu", NULL, &plan) ==
                 RAPT_ERROR_INVALID_ARGUMENT
             ? 0
             : 1;
}
