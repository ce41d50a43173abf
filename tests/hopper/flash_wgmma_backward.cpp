// The device code of flash_wgmma_backward for the model.
#include "src/cuda/flash_wgmma_backward/rows.cu"
#include "src/cuda/flash_wgmma_backward/tiles_128.cu"
#include "src/cuda/flash_wgmma_backward/tiles_192.cu"
#include "src/cuda/flash_wgmma_backward/tiles_256.cu"
#include "src/cuda/flash_wgmma_backward/tiles_64.cu"
