//! A CUDA device: its kernels, run on the CPU by an emulator of threads and barriers, and devices that
//! fail, by libraries made for it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{Ran, World};

/// Steps at which the library of `cuda.c` fails, with a word of the warning.
const STEPS: [(&str, &str); 12] = [
    ("init", "being counted"),
    ("context", "being opened"),
    ("compile", "do not compile"),
    ("module", "loading the kernels"),
    ("cublas", "opening cuBLAS"),
    ("cublaslt", "opening cuBLASLt"),
    ("workspace", "being opened"),
    ("alloc", "copying"),
    ("launch", "failed while"),
    ("fetch", "fetching"),
    ("product", "failed while"),
    ("missing", "no function cuLaunchKernel"),
];

#[test]
#[expect(clippy::disallowed_methods, reason = "the test compiles the kernels")]
fn kernels_compute_what_plain_loops_compute() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("kernels");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/kernels.cpp");
    let compile = ["-std=c++20", "-O1", "-pthread", "-o"];
    let Ok(built) = Command::new("c++").args(compile).arg(&program).arg(source).output() else {
        eprintln!("skipped: no C++ compiler");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

/// Libraries of CUDA that fail where `FAKE_CUDA` says, in a folder; none without a C compiler.
#[expect(clippy::disallowed_methods, reason = "the test compiles the libraries")]
fn libraries(folder: PathBuf, flags: &[&str]) -> Option<PathBuf> {
    fs::create_dir(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/cuda.c");
    let driver = folder.join("libcuda.so");
    let compile = ["-shared", "-fPIC", "-o"];
    let built = Command::new("cc").args(compile).arg(&driver).arg(source).args(flags).output();
    let Ok(built) = built else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in ["libnvrtc.so", "libcublas.so", "libcublasLt.so"] {
        fs::copy(&driver, folder.join(name)).unwrap();
    }
    Some(folder)
}

/// Search by vectors of a sentence encoder. Vectors of queries are not kept from one search to the next.
fn search(world: &World, environment: &[(&str, &str)]) -> Ran {
    let _ = fs::remove_dir_all(world.path("home/cache"));
    let search = ["search", "tiny", "a steel dart", "--system", "dense", "--json"];
    let mut command = world.command(search);
    command.envs(environment.iter().copied());
    Ran::of(command.output().unwrap())
}

#[test]
fn a_device_that_fails_leaves_the_results_of_the_cpu_and_one_warning() {
    let world = World::indexed();
    let Some(whole) = libraries(world.path("whole"), &[]) else { return };
    let Some(lacking) = libraries(world.path("lacking"), &["-DINCOMPLETE"]) else { return };
    let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/encoder/plain");
    let candle = format!("candle:{}", encoder.display());
    world.run(["index", "tiny", "--embedder", &candle]).done();
    let expected = search(&world, &[]).done();
    let log = world.path("opened").display().to_string();
    let opened = || {
        let opened = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        opened.lines().count()
    };
    for (step, warning) in [("none", ""), ("no-device", "")].into_iter().chain(STEPS) {
        let folder = if step == "missing" { &lacking } else { &whole }.display().to_string();
        let mut environment =
            vec![("LD_LIBRARY_PATH", &*folder), ("FAKE_CUDA", step), ("FAKE_CUDA_LOG", &*log)];
        let ran = search(&world, &environment);
        let warned = ran.stderr.matches("continuing on the CPU").count();
        assert_eq!(warned, usize::from(!warning.is_empty()), "{step}: {}", ran.stderr);
        assert!(ran.stderr.contains(warning), "{step}: {}", ran.stderr);
        assert_eq!(ran.done(), expected, "{step}");
        assert!(opened() <= 1, "{step}: the device was opened again");

        environment.push(("AGENT_GPU", "require"));
        let error = if warning.is_empty() { "no CUDA device was found" } else { warning };
        search(&world, &environment).fails(1, &[error]);
        opened();
    }
    search(&world, &[("AGENT_GPU", "always")]).fails(1, &["AGENT_GPU is \"always\"", "require"]);
    // All functions that are called are looked up first: nothing of a device that works is missing.
    let folder = whole.display().to_string();
    let ran = search(&world, &[("LD_LIBRARY_PATH", &folder), ("AGENT_GPU", "require")]);
    assert!(!ran.stderr.contains("Missing symbol"), "{}", ran.stderr);
    ran.done();
}
