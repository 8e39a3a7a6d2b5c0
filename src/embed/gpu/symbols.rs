//! Checks that CUDA's libraries have all functions that this crate and the wrappers of the crate
//! `cudarc` call.
//!
//! `cudarc` looks up a function when the function is first called, and panics if the library lacks
//! it, even in destructors. Therefore this module looks up all functions before the first call.

use cudarc::{cublas, cublaslt, driver, nvrtc};

use super::{GpuError, Result};

const DRIVER: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];
const NVRTC: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
];
const CUBLAS: &[&str] =
    &["cublasCreate_v2", "cublasDestroy_v2", "cublasGemmEx", "cublasSetStream_v2"];
const CUBLAS_LT: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
];

/// Looks up all functions in CUDA's libraries; the libraries must be present.
///
/// # Errors
/// [`GpuError::Symbol`] for the first missing function.
pub(super) fn check() -> Result<()> {
    // SAFETY: these load shared libraries by their usual names; the initialisers of CUDA's
    // libraries have no conditions. No function that is looked up is called.
    unsafe {
        let all = [
            ("libcuda", driver::sys::culib(), DRIVER),
            ("libnvrtc", nvrtc::sys::culib(), NVRTC),
            ("libcublas", cublas::sys::culib(), CUBLAS),
            ("libcublasLt", cublaslt::sys::culib(), CUBLAS_LT),
        ];
        for (library, loaded, symbols) in all {
            for symbol in symbols {
                if loaded.get::<unsafe extern "C" fn()>(symbol.as_bytes()).is_err() {
                    return Err(GpuError::Symbol { library, symbol });
                }
            }
        }
    }
    Ok(())
}
