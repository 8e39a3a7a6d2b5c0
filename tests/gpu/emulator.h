// Threads, barriers and shuffles of a device, on the CPU: enough to run src/embed/gpu/kernels.cu block by
// block, one system thread per device thread. Slow and exact; for tests alone.

#pragma once
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#define __device__ static
#define __global__
#define __shared__ static
#define ALL_LANES 0xffffffffu

struct dim3 {
    unsigned x, y;
};
static thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static std::unique_ptr<std::barrier<>> block_barrier;
static float lanes[1024];

static void __syncthreads() { block_barrier->arrive_and_wait(); }
using std::min;
static float rsqrtf(float value) { return 1.0f / std::sqrt(value); }

// All threads of the block must take part, as they do in the kernels.
static float __shfl_xor_sync(unsigned, float value, int mask) {
    lanes[threadIdx.x] = value;
    __syncthreads();
    float other = lanes[threadIdx.x ^ mask];
    __syncthreads();
    return other;
}

// IEEE 754 half precision, rounding to nearest even.
typedef uint16_t f16;
static float wide(f16 bits) {
    int exponent = bits >> 10 & 31;
    float fraction = bits & 1023;
    float size = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    return bits & 0x8000 ? -size : size;
}
static f16 narrow(float value) {
    f16 sign = std::signbit(value) ? 0x8000 : 0;
    float size = std::fabs(value);
    if (size >= 65520.0f) return sign | 0x7c00;
    int exponent = std::max(size > 0.0f ? std::ilogb(size) : -14, -14);
    // A fraction that rounds up to 2048 carries into the exponent.
    int fraction = (int)std::nearbyint(std::ldexp(size, 10 - exponent));
    return sign | (f16)(((exponent + 14) << 10) + fraction);
}

// Runs a kernel over a grid of blocks, one after the other.
static void launch(dim3 grid, unsigned threads, const std::function<void()> &kernel) {
    gridDim = grid;
    blockDim = {threads, 1};
    for (unsigned y = 0; y < grid.y; y++) {
        for (unsigned x = 0; x < grid.x; x++) {
            block_barrier = std::make_unique<std::barrier<>>(threads);
            std::vector<std::thread> all;
            for (unsigned t = 0; t < threads; t++) {
                all.emplace_back([&, t] {
                    threadIdx = {t, 0};
                    blockIdx = {x, y};
                    kernel();
                });
            }
            for (auto &one : all) one.join();
        }
    }
}
