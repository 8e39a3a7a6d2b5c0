//! Computation on a CUDA device, found at run time: the forward pass of an encoder, exact top-k.
//!
//! Building and starting need no part of CUDA; its libraries are loaded when a device is requested.
//! Matrix products use cuBLAS and cuBLASLt; the other kernels are in `kernels.cu`, which NVRTC
//! compiles for the device.
//!
//! | file | content |
//! | --- | --- |
//! | `mod.rs` | the device, its stream and its kernels |
//! | [`encoder`] | vectors of tokens by the weights of a model |
//! | [`topk`] | rows with the highest scores for queries |

pub mod encoder;
pub mod topk;

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::{
    cublas::{CudaBlas, result::CublasError as BlasError},
    cublaslt::{CudaBlasLT, result::CublasError as BlasLtError},
    driver::{
        CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, LaunchConfig,
        sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        },
    },
    nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts},
};

/// The source of all kernels.
const KERNELS: &str = include_str!("kernels.cu");
/// Maximum size of a row that the kernels hold in shared memory, numbers.
pub const MAX_WIDTH: usize = 4_096;
/// Threads of a block that works on one row, as in the kernels.
const ROW_THREADS: u32 = 128;

/// Error of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver failed during `doing`.
    #[error(
        "the CUDA device failed while {doing}: {what}; set CUDA_VISIBLE_DEVICES= to use the CPU"
    )]
    Device {
        /// Attempted operation.
        doing: &'static str,
        /// Message of the driver.
        what: String,
    },
    /// The kernels do not compile for this device.
    #[error(
        "the CUDA kernels do not compile for {arch}: {log}; set CUDA_VISIBLE_DEVICES= to use the CPU"
    )]
    Compile {
        /// The architecture.
        arch: String,
        /// Message of the compiler.
        log: String,
    },
    /// The sizes do not match or exceed a limit.
    #[error("{what} is {got}, expected {expected}")]
    Shape {
        /// Name of the size.
        what: &'static str,
        /// Its value.
        got: usize,
        /// Expected value or range.
        expected: String,
    },
}

impl GpuError {
    fn shape(what: &'static str, got: usize, expected: impl ToString) -> GpuError {
        GpuError::Shape { what, got, expected: expected.to_string() }
    }
}

/// Adds the operation to errors of the driver and the libraries.
trait DeviceContext<T> {
    fn doing(self, doing: &'static str) -> Result<T, GpuError>;
}

impl<T> DeviceContext<T> for Result<T, DriverError> {
    fn doing(self, doing: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::Device { doing, what: error.to_string() })
    }
}

impl<T> DeviceContext<T> for Result<T, BlasError> {
    fn doing(self, doing: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::Device { doing, what: error.to_string() })
    }
}

impl<T> DeviceContext<T> for Result<T, BlasLtError> {
    fn doing(self, doing: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::Device { doing, what: error.to_string() })
    }
}

/// A CUDA device with its compiled kernels; all work goes through one stream, in order.
pub struct Device {
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    blas: CudaBlas,
    blas_lt: CudaBlasLT,
    name: String,
}

impl Device {
    /// The first device; none if there is no driver, no device, or a library of CUDA is missing.
    ///
    /// Opened once, which compiles the kernels, and then shared.
    ///
    /// # Errors
    /// [`GpuError::Device`], [`GpuError::Compile`]: there is a device but it cannot be used.
    pub fn first() -> Result<Option<Arc<Device>>, GpuError> {
        static FIRST: Mutex<Option<Option<Arc<Device>>>> = Mutex::new(None);
        let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*first {
            return Ok(opened.clone());
        }
        Ok(first.insert(Device::open()?).clone())
    }

    fn open() -> Result<Option<Arc<Device>>, GpuError> {
        // SAFETY: these load shared libraries by their usual names; the initialisers of CUDA's
        // libraries have no conditions.
        let present = unsafe {
            cudarc::driver::sys::is_culib_present()
                && cudarc::nvrtc::sys::is_culib_present()
                && cudarc::cublas::sys::is_culib_present()
                && cudarc::cublaslt::sys::is_culib_present()
        };
        if !present || !CudaContext::device_count().is_ok_and(|n| n > 0) {
            return Ok(None);
        }
        let context = CudaContext::new(0).doing("being opened")?;
        let attribute = |which| context.attribute(which).doing("being asked what it is");
        let (major, minor) = (
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let ptx = compile(&format!("compute_{major}{minor}"))?;
        let module = context.load_module(ptx).doing("loading the kernels")?;
        let stream = context.default_stream();
        Ok(Some(Arc::new(Device {
            blas: CudaBlas::new(stream.clone()).doing("opening cuBLAS")?,
            blas_lt: CudaBlasLT::new(stream.clone()).doing("opening cuBLASLt")?,
            name: context.name().doing("being asked for its name")?,
            module,
            stream,
        })))
    }

    /// Name of the device from the driver.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn kernel(&self, name: &'static str) -> Result<CudaFunction, GpuError> {
        self.module.load_function(name).doing("looking up a kernel")
    }
}

/// Compiles the kernels for an architecture such as `compute_90`; needs NVRTC, not a device.
///
/// # Errors
/// [`GpuError::Compile`] with the compiler's message.
fn compile(arch: &str) -> Result<Ptx, GpuError> {
    let options = vec![format!("--gpu-architecture={arch}")];
    compile_ptx_with_opts(KERNELS, CompileOptions { options, ..CompileOptions::default() }).map_err(
        |error| {
            let log = match error {
                CompileError::CompileError { log, .. } => log.to_string_lossy().into_owned(),
                other => other.to_string(),
            };
            GpuError::Compile { arch: arch.to_owned(), log }
        },
    )
}

/// A launch configuration of blocks and threads.
fn grid(x: usize, y: usize, threads: u32) -> Result<LaunchConfig, GpuError> {
    let side = |n: usize, most: u32| {
        u32::try_from(n)
            .ok()
            .filter(|&n| n <= most)
            .ok_or_else(|| GpuError::shape("a grid of blocks", n, format!("at most {most}")))
    };
    let grid_dim = (side(x, i32::MAX as u32)?, side(y, u32::from(u16::MAX))?, 1);
    Ok(LaunchConfig { grid_dim, block_dim: (threads, 1, 1), shared_mem_bytes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_compile_for_the_devices_of_today() {
        // SAFETY: as in `Device::open`.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            crate::given::skipped("no NVRTC library; `pip install nvidia-cuda-nvrtc` has one");
            return;
        }
        for arch in ["compute_80", "compute_90"] {
            let source = compile(arch).unwrap().to_src();
            for kernel in encoder::KERNELS.iter().chain(topk::KERNELS) {
                assert!(source.contains(&format!(".entry {kernel}(")), "{kernel} for {arch}");
            }
        }
    }

    #[test]
    fn where_there_is_no_device_there_is_none() {
        if let Some(device) = Device::first().unwrap() {
            assert!(!device.name().is_empty());
        }
    }
}
