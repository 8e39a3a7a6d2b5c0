// Kernels of the encoder's forward pass and of exact top-k.
//
// Compiled at run time, without headers of the CUDA toolkit. The kernels read and write rows of
// numbers and do not depend on models or files. Activations and weights are 16-bit floats; sums are
// computed in 32 bits, in an order that depends only on the shapes.
//
// `tests/gpu/emulator.h` emulates threads, barriers and shuffles, to test this source on the CPU.

#ifdef __CUDACC_RTC__
typedef unsigned short f16;
__device__ __forceinline__ float wide(f16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ f16 narrow(float value) {
    f16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#define ALL_LANES 0xffffffffu
#endif

// Number of threads of a block that processes one row.
#define ROW_THREADS 128
// Number of queries of a block of attention; also the number of keys that it reads at a time.
#define TILE 64
// Number of threads of a block of top-k, and number of rows that the block sorts.
#define SORT_THREADS 256
#define SORT_ROWS 1024
// Score and row number that mark an empty place: the lowest score, and a number that no row has.
#define LEAST -3.4028235e38f
#define NO_ROW 0xffffffffu

// Returns the sum of `value` over the threads of a block of ROW_THREADS threads.
__device__ float block_sum(float value, float *shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    float sum = shared[0];
    __syncthreads();
    return sum;
}

// Writes the layer normalisation of `row` to `out` (Ba, Kiros & Hinton 2016).
__device__ void normalize(float *row, int width, const float *gamma, const float *beta, float eps,
                          float *shared, f16 *out) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) sum += row[i];
    float mean = block_sum(sum, shared) / width;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        float d = row[i] - mean;
        squares += d * d;
    }
    float scale = rsqrtf(block_sum(squares, shared) / width + eps);
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        out[i] = narrow((row[i] - mean) * scale * gamma[i] + beta[i]);
    }
}

// One block per token: out[t] = norm(words[ids[t]] + places[positions[t]] + kind).
extern "C" __global__ void embed(const int *ids, const int *positions, const f16 *words,
                                 const f16 *places, const f16 *kind, const float *gamma,
                                 const float *beta, float eps, int width, f16 *out) {
    __shared__ float row[4096];
    __shared__ float shared[ROW_THREADS];
    size_t token = blockIdx.x;
    const f16 *word = words + (size_t)ids[token] * width;
    const f16 *place = places + (size_t)positions[token] * width;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        row[i] = wide(word[i]) + wide(place[i]) + wide(kind[i]);
    }
    __syncthreads();
    normalize(row, width, gamma, beta, eps, shared, out + token * width);
}

// One block per token: x[t] = norm(x[t] + y[t]).
extern "C" __global__ void add_norm(f16 *x, const f16 *y, const float *gamma, const float *beta,
                                    float eps, int width) {
    __shared__ float row[4096];
    __shared__ float shared[ROW_THREADS];
    size_t first = (size_t)blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        row[i] = wide(x[first + i]) + wide(y[first + i]);
    }
    __syncthreads();
    normalize(row, width, gamma, beta, eps, shared, x + first);
}

// x[i] = f(x[i]), where f is GELU by the error function (kind 0), GELU by tanh (1) or ReLU (2).
extern "C" __global__ void activate(f16 *x, size_t n, int kind) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = wide(x[i]);
    if (kind == 0) {
        v = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    } else if (kind == 1) {
        v = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    } else {
        v = fmaxf(v, 0.0f);
    }
    x[i] = narrow(v);
}

// Attention of TILE queries of one sequence and one head. Keys are read in tiles, with a running
// maximum (Milakov & Gimelshein 2018; Dao et al. 2022). `tiles` has three numbers per block: the
// first token of the tile, the first token of its sequence, and the end of its sequence. A row of
// `qkv` holds the queries, keys and values of all heads. blockIdx.y is the head.
template <int DIM>
__device__ void attend(const f16 *qkv, const int *tiles, int heads, float scale, f16 *out) {
    __shared__ float keys[TILE * DIM];
    __shared__ float values[TILE * DIM];
    const int *tile = tiles + 3 * blockIdx.x;
    int first = tile[1], end = tile[2];
    int token = tile[0] + threadIdx.x;
    bool mine = token < end;
    size_t width = (size_t)heads * DIM;
    size_t column = (size_t)blockIdx.y * DIM;

    float query[DIM], sum[DIM];
#pragma unroll
    for (int i = 0; i < DIM; i++) {
        query[i] = mine ? wide(qkv[(size_t)token * 3 * width + column + i]) * scale : 0.0f;
        sum[i] = 0.0f;
    }
    float most = -1e30f, total = 0.0f;
    for (int from = first; from < end; from += TILE) {
        int n = min(TILE, end - from);
        for (int at = threadIdx.x; at < n * DIM; at += TILE) {
            size_t key = (size_t)(from + at / DIM) * 3 * width + width + column + at % DIM;
            keys[at] = wide(qkv[key]);
            values[at] = wide(qkv[key + width]);
        }
        __syncthreads();
        for (int k = 0; k < n; k++) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < DIM; i++) score += query[i] * keys[k * DIM + i];
            if (score > most) {
                float shrink = expf(most - score);
                total *= shrink;
#pragma unroll
                for (int i = 0; i < DIM; i++) sum[i] *= shrink;
                most = score;
            }
            float weight = expf(score - most);
            total += weight;
#pragma unroll
            for (int i = 0; i < DIM; i++) sum[i] += weight * values[k * DIM + i];
        }
        __syncthreads();
    }
    if (mine) {
#pragma unroll
        for (int i = 0; i < DIM; i++) out[(size_t)token * width + column + i] = narrow(sum[i] / total);
    }
}

extern "C" __global__ void attend_32(const f16 *qkv, const int *tiles, int heads, float scale,
                                     f16 *out) {
    attend<32>(qkv, tiles, heads, scale, out);
}

extern "C" __global__ void attend_64(const f16 *qkv, const int *tiles, int heads, float scale,
                                     f16 *out) {
    attend<64>(qkv, tiles, heads, scale, out);
}

// One block per sequence, whose tokens are starts[s]..starts[s + 1]: writes the mean of its rows,
// or its first row, scaled to Euclidean norm 1.
extern "C" __global__ void pool(const f16 *x, const int *starts, int width, int first_only,
                                float *out) {
    __shared__ float row[4096];
    __shared__ float shared[ROW_THREADS];
    int first = starts[blockIdx.x], end = first_only ? first + 1 : starts[blockIdx.x + 1];
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        float sum = 0.0f;
        for (int token = first; token < end; token++) sum += wide(x[(size_t)token * width + i]);
        row[i] = sum / (end - first);
        squares += row[i] * row[i];
    }
    float length = sqrtf(block_sum(squares, shared));
    float scale = length > 0.0f ? 1.0f / length : 0.0f;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        out[(size_t)blockIdx.x * width + i] = row[i] * scale;
    }
}

// Sorts SORT_ROWS pairs in shared memory by descending score, then ascending row, with a bitonic
// network (Batcher 1968).
__device__ void sort_pairs(float *scores, unsigned *rows) {
    for (int size = 2; size <= SORT_ROWS; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            for (int i = threadIdx.x; i < SORT_ROWS / 2; i += SORT_THREADS) {
                int a = 2 * stride * (i / stride) + i % stride, b = a + stride;
                bool behind = scores[a] < scores[b] || (scores[a] == scores[b] && rows[a] > rows[b]);
                bool falling = (a & size) == 0;
                if (behind == falling && (scores[a] != scores[b] || rows[a] != rows[b])) {
                    float score = scores[a];
                    unsigned row = rows[a];
                    scores[a] = scores[b], rows[a] = rows[b];
                    scores[b] = score, rows[b] = row;
                }
            }
            __syncthreads();
        }
    }
}

// Writes the best k of the block's pairs as list blockIdx.x of query blockIdx.y.
__device__ void emit(const float *scores, const unsigned *rows, int k, float *out_scores,
                     unsigned *out_rows) {
    size_t list = ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * k;
    for (int i = threadIdx.x; i < k; i += SORT_THREADS) {
        out_scores[list + i] = scores[i];
        out_rows[list + i] = rows[i];
    }
}

// Scores rows[n, dim] for one query and selects the best k of each SORT_ROWS rows. blockIdx.y is
// the query; a warp scores one row at a time.
extern "C" __global__ void score_rows(const f16 *rows, const float *queries, unsigned n, int dim,
                                      int k, float *out_scores, unsigned *out_rows) {
    __shared__ float query[4096];
    __shared__ float scores[SORT_ROWS];
    __shared__ unsigned ids[SORT_ROWS];
    for (int i = threadIdx.x; i < dim; i += SORT_THREADS) {
        query[i] = queries[(size_t)blockIdx.y * dim + i];
    }
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int at = warp; at < SORT_ROWS; at += SORT_THREADS / 32) {
        unsigned row = blockIdx.x * SORT_ROWS + at;
        float sum = 0.0f;
        if (row < n) {
            const f16 *numbers = rows + (size_t)row * dim;
            for (int i = lane; i < dim; i += 32) sum += wide(numbers[i]) * query[i];
        }
        for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, half);
        if (lane == 0) {
            scores[at] = row < n ? sum : LEAST;
            ids[at] = row < n ? row : NO_ROW;
        }
    }
    __syncthreads();
    sort_pairs(scores, ids);
    emit(scores, ids, k, out_scores, out_rows);
}

// Selects the best k of each SORT_ROWS of scores[query, n], whose first column is row `first`.
extern "C" __global__ void select_rows(const float *in_scores, unsigned n, unsigned first, int k,
                                       float *out_scores, unsigned *out_rows) {
    __shared__ float scores[SORT_ROWS];
    __shared__ unsigned ids[SORT_ROWS];
    for (int at = threadIdx.x; at < SORT_ROWS; at += SORT_THREADS) {
        unsigned column = blockIdx.x * SORT_ROWS + at;
        scores[at] = column < n ? in_scores[(size_t)blockIdx.y * n + column] : LEAST;
        ids[at] = column < n ? first + column : NO_ROW;
    }
    __syncthreads();
    sort_pairs(scores, ids);
    emit(scores, ids, k, out_scores, out_rows);
}

// Selects the best k of each SORT_ROWS of pairs[query, n]; merges the lists of the kernels above.
extern "C" __global__ void select_pairs(const float *in_scores, const unsigned *in_rows, unsigned n,
                                        int k, float *out_scores, unsigned *out_rows) {
    __shared__ float scores[SORT_ROWS];
    __shared__ unsigned ids[SORT_ROWS];
    for (int at = threadIdx.x; at < SORT_ROWS; at += SORT_THREADS) {
        size_t from = (size_t)blockIdx.x * SORT_ROWS + at;
        scores[at] = from < n ? in_scores[(size_t)blockIdx.y * n + from] : LEAST;
        ids[at] = from < n ? in_rows[(size_t)blockIdx.y * n + from] : NO_ROW;
    }
    __syncthreads();
    sort_pairs(scores, ids);
    emit(scores, ids, k, out_scores, out_rows);
}
