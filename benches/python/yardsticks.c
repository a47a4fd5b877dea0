// What this machine can do: its arithmetic peaks, reading and copying memory, and plain loops as one writes them in C.
// Compiled by `yardsticks.py` for this processor. Every function works on one thread and returns nothing: the caller
// measures. Loops that only measure keep their results alive with an empty `asm`.
#include <math.h>
#include <stddef.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef float floats __attribute__((vector_size(64)));
typedef long long longs __attribute__((vector_size(64)));

#define CHAINS 16
#define PEAK_ROUNDS 1000000 // milliseconds, beside which handing the work to a thread is nothing

// CHAINS independent chains, so that neither latency nor loads bound the arithmetic.
#define PEAK(type, zero, step)                                                                                         \
    type acc[CHAINS], x = zero;                                                                                        \
    for (int c = 0; c < CHAINS; c++) acc[c] = zero;                                                                    \
    __asm__ volatile("" : "+v"(x));                                                                                    \
    for (int round = 0; round < PEAK_ROUNDS; round++) {                                                                \
        _Pragma("GCC unroll 16") for (int c = 0; c < CHAINS; c++) acc[c] = step;                                       \
    }                                                                                                                  \
    for (int c = 0; c < CHAINS; c++) __asm__ volatile("" : : "v"(acc[c]))

// Operations of one call of the peak of the name, 0 where this processor has none.
#ifdef __AVX512F__
double fp32_operations(void) { return 32.0 * CHAINS * PEAK_ROUNDS; }
void fp32_peak(void) { PEAK(__m512, _mm512_setzero_ps(), _mm512_fmadd_ps(x, x, acc[c])); }
#elif defined(__FMA__)
double fp32_operations(void) { return 16.0 * CHAINS * PEAK_ROUNDS; }
void fp32_peak(void) { PEAK(__m256, _mm256_setzero_ps(), _mm256_fmadd_ps(x, x, acc[c])); }
#else
double fp32_operations(void) { return 0.0; }
void fp32_peak(void) {}
#endif

#ifdef __AVX512BF16__
double bf16_operations(void) { return 64.0 * CHAINS * PEAK_ROUNDS; }
void bf16_peak(void) { PEAK(__m512, _mm512_setzero_ps(), _mm512_dpbf16_ps(acc[c], (__m512bh)x, (__m512bh)x)); }
#else
double bf16_operations(void) { return fp32_operations(); }
void bf16_peak(void) { fp32_peak(); }
#endif

// Sums `bytes`, a multiple of 512, from an aligned address.
void read_memory(const void *from, size_t bytes) {
    const longs *data = from;
    longs sums[8] = {0};
    for (size_t i = 0; i < bytes / 64; i += 8) {
        _Pragma("GCC unroll 8") for (int s = 0; s < 8; s++) {
            sums[s] += data[i + s];
            __builtin_prefetch((const char *)&data[i + s] + 4096, 0, 0);
        }
    }
    for (int s = 0; s < 8; s++) __asm__ volatile("" : : "v"(sums[s]));
}

// The best copy of memory that does not fit the caches: streaming stores, prefetch 4 KiB ahead past the caches.
// Aligned addresses, a multiple of 64 bytes.
void copy_memory(void *to, const void *from, size_t bytes) {
#ifdef __AVX512F__
    for (size_t at = 0; at < bytes; at += 64) {
        __builtin_prefetch((const char *)from + at + 4096, 0, 0);
        _mm512_stream_si512((void *)((char *)to + at), _mm512_load_si512((const char *)from + at));
    }
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

// Plain C, as a compiler makes it quick with -O3 -ffast-math.
void plain_softmax(const float *restrict x, float *restrict out, size_t rows, size_t cols) {
    for (size_t row = 0; row < rows; row++, x += cols, out += cols) {
        float most = x[0], sum = 0;
        for (size_t i = 0; i < cols; i++) most = x[i] > most ? x[i] : most;
        for (size_t i = 0; i < cols; i++) {
            out[i] = expf(x[i] - most);
            sum += out[i];
        }
        float scale = 1 / sum;
        for (size_t i = 0; i < cols; i++) out[i] *= scale;
    }
}

void plain_eight(float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i] * 1.5f + 0.25f;
        v = (v > 0 ? v : 0) * 0.75f + 0.5f;
        v = ((v < 3 ? v : 3) - 0.125f) * 1.25f;
        x[i] = v;
    }
}

// `a += b` of 16x16 again and again, each time from memory and to memory.
void plain_adds(float *restrict a, const float *restrict b, size_t times) {
    for (size_t t = 0; t < times; t++) {
        for (size_t i = 0; i < 256; i++) a[i] += b[i];
        __asm__ volatile("" : : "r"(a) : "memory");
    }
}

// c[side, side] = a @ b, with a tile of results in registers; `side` is a multiple of 32.
#define TILE_ROWS 6
#define TILE_COLS 32
static inline __attribute__((always_inline)) void plain_tile(const float *restrict a, const float *restrict b,
                                                             float *restrict c, size_t side, int rows) {
    float acc[TILE_ROWS][TILE_COLS] = {{0}};
    for (size_t k = 0; k < side; k++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < TILE_COLS; j++) acc[i][j] += a[i * side + k] * b[k * side + j];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < TILE_COLS; j++) c[i * side + j] = acc[i][j];
}

void plain_matmul(const float *a, const float *b, float *c, size_t side) {
    for (size_t j = 0; j < side; j += TILE_COLS) {
        size_t i = 0;
        for (; i + TILE_ROWS <= side; i += TILE_ROWS) plain_tile(a + i * side, b + j, c + i * side + j, side, TILE_ROWS);
        for (; i < side; i++) plain_tile(a + i * side, b + j, c + i * side + j, side, 1);
    }
}
