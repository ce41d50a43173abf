//! Finds librapt.so: in the folder that `RAPT_LIB_DIR` names, else where pkg-config says that rapt is
//! installed, else in the release build of the clone that this crate lies in.
//!
//! Programs that depend on the crate find that folder in `DEP_RAPT_LIBDIR`, in their build scripts.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn named() -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("RAPT_LIB_DIR")?);
    assert!(
        holds_library(&folder),
        "RAPT_LIB_DIR is {}, which holds no librapt.so; name the folder that does",
        folder.display()
    );
    Some(folder)
}

fn installed() -> Option<PathBuf> {
    let answer =
        Command::new("pkg-config").args(["--variable=libdir", "rapt-shared"]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    holds_library(&folder).then_some(folder)
}

fn built() -> Option<PathBuf> {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let folder = crate_folder.parent()?.parent()?.join("build/release/src");
    holds_library(&folder).then_some(folder)
}

fn holds_library(folder: &Path) -> bool {
    folder.join("librapt.so").exists()
}

fn main() {
    for variable in ["RAPT_LIB_DIR", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let folder = named().or_else(installed).or_else(built).unwrap_or_else(|| {
        panic!(
            "librapt.so is not found; install rapt so that `pkg-config rapt-shared` knows it, run \
             ./dev build in its clone, or set RAPT_LIB_DIR to the folder that holds the library"
        )
    });
    let folder = folder.display();
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=rapt");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}"); // of this crate's own tests and examples
    println!("cargo:libdir={folder}");
}
