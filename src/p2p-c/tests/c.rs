//! The example, built with pkg-config as a user does and run.

use std::path::{Path, PathBuf};
use std::process::Command;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Installs library, header and pkg-config file below `prefix`.
fn install(prefix: &Path) {
    let built = std::env::current_exe().expect("a path");
    let library = built.with_file_name("libtcpxp2p.so");
    let place = |folder: &str| {
        let folder = prefix.join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    };
    std::fs::copy(&library, place("lib").join("libtcpxp2p.so")).expect("the library is built");
    std::fs::copy(source("tcpxp2p.h"), place("include").join("tcpxp2p.h")).expect("the header");
    let template = include_str!("../tcpxp2p.pc.in");
    let text = template
        .replace("@prefix@", &prefix.display().to_string())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    std::fs::write(place("lib/pkgconfig").join("tcpxp2p.pc"), text).expect("a file");
}

/// What pkg-config answers; where there is none, what its file says.
fn flags(prefix: &Path) -> Vec<String> {
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "tcpxp2p"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let Ok(answer) = asked else {
        println!("no pkg-config here: its file is not tried");
        let prefix = prefix.display();
        return vec![
            format!("-I{prefix}/include"),
            format!("-L{prefix}/lib"),
            "-ltcpxp2p".into(),
        ];
    };
    assert!(answer.status.success(), "{answer:?}");
    let answer = String::from_utf8(answer.stdout).expect("text");
    answer.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_example_in_c_is_built_and_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    install(folder.path());
    let program = folder.path().join("example");
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .arg(source("example.c"))
        .args(flags(folder.path()))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(compiled.expect("a C compiler").success());
    // Cargo's names folders in which the library was built.
    let ran = Command::new(&program)
        .env_remove("LD_LIBRARY_PATH")
        .env("EXAMPLE_PLUGIN", "builtin")
        .env("EXAMPLE_ADDRESS", "127.0.0.1")
        .env("TCPXSOFT_SOCKET_IFNAME", "lo")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(
        said,
        "refused: bytes 1..1048577 are outside the advertised range of 1048576 bytes\n\
         written: 1048576 bytes read and written back\n"
    );
}
