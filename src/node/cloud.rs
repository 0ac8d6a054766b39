//! What the metadata server of a virtual machine says about the hardware below it.
#![forbid(unsafe_code)]

use crate::Root;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The metadata server of Google Cloud, which answers within the host.
const SERVER: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)),
    80,
);
/// For each of connecting, sending and receiving.
const WAIT_MAX: Duration = Duration::from_millis(300);
const ANSWER_MAX: u64 = 4096;
/// As DMI names the machines that have that server.
const PRODUCT: &str = "Google Compute Engine";

/// Where the virtual machine runs, as `/block/subblock/host`, each a name without meaning that
/// machines in one place share. `None` on other machines, and where the server does not tell.
pub fn physical_host(root: &Root) -> Option<String> {
    let product = root.line("/sys/class/dmi/id/product_name");
    if !root.is_live() || product.known()? != PRODUCT {
        return None;
    }
    let answer = ask(SERVER).ok()?;
    place_in(&answer)
}

fn ask(server: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, WAIT_MAX)?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.write_all(
        b"GET /computeMetadata/v1/instance/attributes/physical_host HTTP/1.0\r\n\
          Host: metadata.google.internal\r\nMetadata-Flavor: Google\r\n\r\n",
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The place in an answer, if it is one.
fn place_in(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut words = head.split_whitespace();
    let is_good = words.next()?.starts_with("HTTP/1.") && words.next() == Some("200");
    let body = body.trim();
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "/-_.".contains(letter);
    let is_place = body.starts_with('/') && body.len() <= 512 && body.chars().all(letters);
    (is_good && is_place).then(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn only_a_place_is_taken_from_an_answer() {
        let check = |answer: &str, place: Option<&str>| {
            assert_eq!(place_in(answer).as_deref(), place, "{answer:?}");
        };
        let head = "HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n\r\n";
        check(&format!("{head}/af3/b21/c7\n"), Some("/af3/b21/c7"));
        check(&format!("{head}<html>"), None);
        check(&format!("{head}/a b"), None);
        check(&format!("{head}/{}", "a".repeat(600)), None);
        check("HTTP/1.1 404 Not Found\r\n\r\n/a/b/c", None);
        check("", None);
    }

    #[test]
    fn a_server_is_asked_for_the_place_and_may_say_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("an address");
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 512];
            let length = stream.read(&mut request).expect("a request");
            let answer = b"HTTP/1.0 200 OK\r\n\r\n/a/b/c";
            stream.write_all(answer).expect("an answer");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let answer = ask(server).expect("an answer");
        assert_eq!(place_in(&answer).as_deref(), Some("/a/b/c"));
        let request = serving.join().expect("a request");
        assert!(request.contains("Metadata-Flavor: Google"), "{request}");
        assert!(ask(server).is_err(), "the listener is closed");
    }
}
