// The device code of flash_wgmma_f32 for the model.
#include "src/cuda/flash_wgmma_f32/tiles_128.cu"
#include "src/cuda/flash_wgmma_f32/tiles_256.cu"
#include "src/cuda/flash_wgmma_f32/tiles_32.cu"
#include "src/cuda/flash_wgmma_f32/tiles_64.cu"
