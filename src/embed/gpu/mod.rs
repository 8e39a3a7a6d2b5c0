//! Computation on a CUDA device: the forward pass of an encoder, and exact search for the rows most
//! similar to a query (top-k).
//!
//! CUDA is not needed to build or start the program; its libraries are loaded when a device is
//! requested. If a device fails, the process logs one warning and uses the CPU from then on; with
//! `AGENT_GPU=require` it returns the error instead ([`give_up`]).
//!
//! Matrix products use cuBLAS and cuBLASLt; the other kernels are in `kernels.cu`, which NVRTC
//! compiles for the device.
//!
//! | file | content |
//! | --- | --- |
//! | `mod.rs` | the device, its stream and its kernels; the fallback to the CPU |
//! | `symbols` | check that CUDA's libraries have all functions that are called |
//! | [`encoder`] | the forward pass of an encoder |
//! | [`topk`] | rows with the highest scores for each query |

pub mod encoder;
mod symbols;
pub mod topk;

use std::{
    env,
    fmt::Display,
    panic,
    sync::{Arc, Mutex},
};

use cudarc::{
    cublas::CudaBlas,
    cublaslt::CudaBlasLT,
    driver::{
        CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, LaunchConfig,
        sys::{
            CUdevice_attribute::{
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            },
            CUresult,
        },
    },
    nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts},
};

use agent_ground::locks::locked;

/// CUDA source code of all kernels.
const KERNELS: &str = include_str!("kernels.cu");
/// Maximum number of values in a row that the kernels hold in shared memory.
pub const MAX_WIDTH: usize = 4_096;
/// Number of threads of a block that processes one row; must match `kernels.cu`.
const ROW_THREADS: u32 = 128;

/// Environment variable that, set to `require`, makes a missing or failing device an error.
const VARIABLE: &str = "AGENT_GPU";

/// Result of work on a CUDA device.
pub type Result<T, E = GpuError> = std::result::Result<T, E>;

/// Why computation on a CUDA device failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver or a library of CUDA failed.
    #[error(
        "the CUDA device failed while {doing}: {what}; set CUDA_VISIBLE_DEVICES= to use the CPU"
    )]
    Device {
        /// Attempted operation, such as `loading the kernels`.
        doing: &'static str,
        /// Message of the driver or library.
        what: String,
    },
    /// The kernels do not compile for this device.
    #[error(
        "the CUDA kernels do not compile for {arch}: {log}; set CUDA_VISIBLE_DEVICES= to use the CPU"
    )]
    Compile {
        /// Architecture of the device, such as `compute_90`.
        arch: String,
        /// Message of the compiler.
        log: String,
    },
    /// A library of CUDA lacks a function.
    #[error(
        "the library {library} has no function {symbol}; install a CUDA 13 driver, or set \
         CUDA_VISIBLE_DEVICES= to use the CPU"
    )]
    Symbol {
        /// Name of the library, such as `libcuda`.
        library: &'static str,
        /// Name of the function.
        symbol: &'static str,
    },
    /// A device is required, but there is none.
    #[error("AGENT_GPU is \"require\", but no CUDA device was found; unset it to use the CPU")]
    Absent,
    /// The environment variable `AGENT_GPU` has an unknown value; holds this value.
    #[error("AGENT_GPU is {0:?}; set it to \"require\", or unset it")]
    Variable(String),
    /// The size of an input does not match or exceeds a limit.
    #[error("{what} is {got}, expected {expected}")]
    Shape {
        /// What has the wrong size, such as `a row`.
        what: &'static str,
        /// The size found.
        got: usize,
        /// Expected size or range.
        expected: String,
    },
}

impl GpuError {
    fn shape(what: &'static str, got: usize, expected: impl ToString) -> GpuError {
        GpuError::Shape { what, got, expected: expected.to_string() }
    }
}

/// Converts errors of the driver and of CUDA's libraries to [`GpuError::Device`], which names the
/// attempted operation.
trait DeviceContext<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T, E: Display> DeviceContext<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T> {
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

/// The first CUDA device: `None` before the first attempt to open a device, `Some(None)` if there
/// is none or it failed.
static FIRST: Mutex<Option<Option<Arc<Device>>>> = Mutex::new(None);

/// Makes the process use the CPU from now on, after the device failed; the first call logs a
/// warning.
///
/// # Errors
/// `error` itself with `AGENT_GPU=require`; [`GpuError::Variable`] for an unknown value.
pub fn give_up(error: GpuError) -> Result<()> {
    if is_required()? {
        return Err(error);
    }
    let mut first = locked(&FIRST);
    warn_once(&mut first, &error);
    Ok(())
}

fn warn_once(first: &mut Option<Option<Arc<Device>>>, error: &GpuError) {
    if !matches!(first, Some(None)) {
        *first = Some(None);
        tracing::warn!("{error}; continuing on the CPU");
    }
}

/// Whether a missing or failing device is an error: `AGENT_GPU` is `require`.
fn is_required() -> Result<bool> {
    match env::var_os(VARIABLE) {
        Some(value) if value == "require" => Ok(true),
        Some(value) if !value.is_empty() => {
            Err(GpuError::Variable(value.to_string_lossy().into_owned()))
        }
        _ => Ok(false),
    }
}

impl Device {
    /// Returns the first CUDA device; `None` if the driver, the device or a library of CUDA is
    /// missing, or if the device failed before.
    ///
    /// The first call opens the device and compiles the kernels; later calls return the same
    /// device.
    ///
    /// # Errors
    /// With `AGENT_GPU=require`, the reason why there is no device; [`GpuError::Variable`] for an
    /// unknown value.
    pub fn first() -> Result<Option<Arc<Device>>> {
        let required = is_required()?;
        let mut first = locked(&FIRST);
        if let Some(opened) = &*first
            && !(required && opened.is_none())
        {
            return Ok(opened.clone());
        }
        // `cudarc` panics if cuBLASLt cannot allocate memory.
        let opened = panic::catch_unwind(Device::open).unwrap_or_else(|panic| {
            let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            Err(GpuError::Device { doing: "being opened", what })
        });
        match opened {
            Ok(None) if required => Err(GpuError::Absent),
            Err(error) if required => Err(error),
            Ok(opened) => Ok(first.insert(opened).clone()),
            Err(error) => {
                warn_once(&mut first, &error);
                Ok(None)
            }
        }
    }

    fn open() -> Result<Option<Arc<Device>>> {
        // SAFETY: these load shared libraries by their usual names; the initialisers of CUDA's
        // libraries have no conditions.
        let present = unsafe {
            cudarc::driver::sys::is_culib_present()
                && cudarc::nvrtc::sys::is_culib_present()
                && cudarc::cublas::sys::is_culib_present()
                && cudarc::cublaslt::sys::is_culib_present()
        };
        if !present {
            return Ok(None);
        }
        symbols::check()?;
        match CudaContext::device_count() {
            Ok(0) | Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(None),
            counted => counted.doing("being counted")?,
        };
        let context = CudaContext::new(0).doing("being opened")?;
        let attribute = |which| context.attribute(which).doing("reading its attributes");
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
            name: context.name().doing("reading its name")?,
            module,
            stream,
        })))
    }

    /// Returns the name of the device, as the driver reports it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn kernel(&self, name: &'static str) -> Result<CudaFunction> {
        self.module.load_function(name).doing("looking up a kernel")
    }
}

/// Compiles the kernels for an architecture such as `compute_90`; needs the library NVRTC, but no
/// device.
///
/// # Errors
/// [`GpuError::Compile`] with the compiler's message.
fn compile(arch: &str) -> Result<Ptx> {
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

/// Returns the configuration to launch a kernel with `x` times `y` blocks of `threads` threads.
fn grid(x: usize, y: usize, threads: u32) -> Result<LaunchConfig> {
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
