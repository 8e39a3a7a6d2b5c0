/* A driver, compiler and matrix library of CUDA that compute nothing, or fail at the step that FAKE_CUDA
 * names. Exactly the functions that src/embed/gpu/symbols.rs lists; built with -DINCOMPLETE, one is
 * missing. Every warning names the step, and every open of a device is counted in FAKE_CUDA_LOG. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef size_t usize;

static int at(const char *step, int code) {
    const char *fails = getenv("FAKE_CUDA");
    return fails && !strcmp(fails, step) ? code : 0;
}

int cuInit(unsigned flags) {
    (void)flags;
    return at("no-device", 100) ? 100 : at("init", 803);
}
int cuGetErrorString(int code, const char **text) {
    *text = code == 2 ? "out of memory" : "made to fail";
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = !at("none", 1);
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    return *value = which == 75 ? 8 : 0, 0;
}
int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    return snprintf(name, (usize)length, "fake"), 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    const char *log = getenv("FAKE_CUDA_LOG");
    FILE *file = log ? fopen(log, "a") : NULL;
    if (file) fputs("opened\n", file), fclose(file);
    (void)device;
    return *context = &at, at("context", 2);
}
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuCtxGetCurrent(void **context) { return *context = NULL, 0; }
int cuCtxSetCurrent(void *context) { return (void)context, 0; }
int cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = &at, 0; }
int cuEventDestroy_v2(void *event) { return (void)event, 0; }
int cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }
int cuStreamSynchronize(void *stream) { return (void)stream, 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return (void)stream, (void)event, (void)flags, 0;
}
int cuModuleLoadData(void **module, const void *image) {
    return (void)image, *module = &at, at("module", 218);
}
int cuModuleUnload(void *module) { return (void)module, 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    return (void)module, (void)name, *function = &at, 0;
}
#ifndef INCOMPLETE
int cuLaunchKernel(void *function) { return (void)function, at("launch", 719); }
#endif
/* The workspace of cublasLt is the first and largest allocation; the rows are the next. */
int cuMemAlloc_v2(void **memory, usize bytes) {
    if (at("alloc", 2) && bytes < (1u << 22)) return 2;
    if (at("workspace", 2)) return 2;
    return *memory = calloc(bytes + 1, 1), 0;
}
int cuMemAllocAsync(void **memory, usize bytes, void *stream) {
    return (void)stream, cuMemAlloc_v2(memory, bytes);
}
int cuMemFree_v2(void *memory) { return free(memory), 0; }
int cuMemFreeAsync(void *memory, void *stream) { return (void)stream, free(memory), 0; }
int cuMemsetD8Async(void *to, unsigned char byte, usize bytes, void *stream) {
    return (void)stream, memset(to, byte, bytes), 0;
}
int cuMemcpyHtoDAsync_v2(void *to, const void *from, usize bytes, void *stream) {
    return (void)stream, memcpy(to, from, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, usize bytes, void *stream) {
    return (void)stream, memcpy(to, from, bytes), at("fetch", 700);
}
int cuMemcpyDtoDAsync_v2(void *to, const void *from, usize bytes, void *stream) {
    return (void)stream, memcpy(to, from, bytes), 0;
}

int nvrtcCreateProgram(void **program) { return *program = &at, 0; }
int nvrtcDestroyProgram(void **program) { return (void)program, 0; }
int nvrtcCompileProgram(void *program) { return (void)program, at("compile", 6); }
int nvrtcGetPTXSize(void *program, usize *bytes) { return (void)program, *bytes = 4, 0; }
int nvrtcGetPTX(void *program, char *text) { return (void)program, memcpy(text, "ptx", 4), 0; }
int nvrtcGetProgramLogSize(void *program, usize *bytes) { return (void)program, *bytes = 4, 0; }
int nvrtcGetProgramLog(void *program, char *text) {
    return (void)program, memcpy(text, "log", 4), 0;
}

int cublasCreate_v2(void **handle) { return *handle = &at, at("cublas", 1); }
int cublasDestroy_v2(void *handle) { return (void)handle, 0; }
int cublasSetStream_v2(void *handle, void *stream) { return (void)handle, (void)stream, 0; }
int cublasGemmEx(void *handle) { return (void)handle, at("product", 13); }

int cublasLtCreate(void **handle) { return *handle = &at, at("cublaslt", 1); }
int cublasLtDestroy(void *handle) { return (void)handle, 0; }
int cublasLtMatmul(void *handle) { return (void)handle, at("product", 13); }
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *a, void *b, void *c, void *d, void *e, void *f,
                                   int want, void *found, int *count) {
    (void)handle, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)want;
    /* The result of the search, whose state says that it may be used. */
    memset(found, 0, 96);
    return *count = 1, 0;
}
int cublasLtMatmulDescCreate(void **made) { return *made = &at, 0; }
int cublasLtMatmulDescDestroy(void *made) { return (void)made, 0; }
int cublasLtMatmulDescSetAttribute(void *made) { return (void)made, 0; }
int cublasLtMatmulPreferenceCreate(void **made) { return *made = &at, 0; }
int cublasLtMatmulPreferenceDestroy(void *made) { return (void)made, 0; }
int cublasLtMatmulPreferenceSetAttribute(void *made) { return (void)made, 0; }
int cublasLtMatrixLayoutCreate(void **made) { return *made = &at, 0; }
int cublasLtMatrixLayoutDestroy(void *made) { return (void)made, 0; }
int cublasLtMatrixLayoutSetAttribute(void *made) { return (void)made, 0; }
