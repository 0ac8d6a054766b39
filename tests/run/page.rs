//! The HTML report in a browser: no errors, no requests, and every picture loads. Without
//! Chromium the test prints a message and passes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: no Chromium on this machine; the page was not looked at");
    }
    found
}

fn open(browser: &Path, home: &Path, arguments: &[&str]) -> Output {
    let page = format!(
        "file://{}/reports/sample/report.html",
        env!("CARGO_MANIFEST_DIR")
    );
    Command::new("timeout")
        .arg("50")
        .arg(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", home.display()))
        .args(arguments)
        .arg(page)
        .env("HOME", home)
        .output()
        .expect("started")
}

#[test]
fn a_browser_shows_the_sample_without_errors() {
    let Some(browser) = browser() else { return };
    let home = tempfile::tempdir().expect("a folder");
    let shown = open(&browser, home.path(), &["--dump-dom"]);
    let (dom, said) = (
        String::from_utf8_lossy(&shown.stdout),
        String::from_utf8_lossy(&shown.stderr),
    );
    assert!(shown.status.success(), "{said}");
    // The log has every error of the page, including requests that its policy forbids.
    assert!(!said.contains("CONSOLE"), "{said}");
    assert!(
        dom.contains("STALLED") && dom.matches("</svg>").count() >= 8,
        "{} pictures",
        dom.matches("</svg>").count()
    );
    let pdf = home.path().join("page.pdf");
    let printed = open(
        &browser,
        home.path(),
        &[
            "--no-pdf-header-footer",
            &format!("--print-to-pdf={}", pdf.display()),
        ],
    );
    assert!(printed.status.success());
    assert!(std::fs::metadata(&pdf).is_ok_and(|meta| meta.len() > 10_000));
}
