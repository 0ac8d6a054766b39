//! Socket calls that `std::net` lacks: listening with a large backlog, nonblocking connect from a
//! given address, setting the congestion control and the send buffer, and querying where packets
//! arrive.
//!
//! Every stream created here is nonblocking. `std` writes with `MSG_NOSIGNAL`, so control sockets
//! use `std`; data sockets have their own calls in `io`.
#![expect(unsafe_code, reason = "socket calls that std does not offer")]

use crate::wire;
use std::ffi::c_int;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The real plugin's backlog.
const BACKLOG: c_int = 16_384;

/// Send buffer of [`bound_send_buffer`]; the kernel doubles it for its own overhead.
const SEND_BUFFER: c_int = 128 << 10;

/// A nonblocking listener on an ephemeral port of `address`. Accepted sockets
/// inherit the congestion control.
pub(crate) fn listen(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpListener> {
    let socket = create(&address, congestion)?;
    bind(&socket, &address)?;
    // SAFETY: no pointers; the descriptor is ours.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(TcpListener::from(socket))
}

/// Starts to connect to `to` from an ephemeral port of `from`.
pub(crate) fn connect(
    from: SocketAddr,
    to: SocketAddr,
    congestion: Option<&str>,
) -> io::Result<TcpStream> {
    let socket = create(&to, congestion)?;
    // The port is chosen at connect, so ports can be shared between peers.
    set_option(
        &socket,
        libc::IPPROTO_IP,
        libc::IP_BIND_ADDRESS_NO_PORT,
        &1i32.to_ne_bytes(),
    )?;
    bind(&socket, &from)?;
    let bytes = wire::encode_address(to);
    let length = wire::address_bytes(&to) as libc::socklen_t;
    // SAFETY: `bytes` holds a sockaddr of `length` bytes, and outlives the call.
    match check(unsafe { libc::connect(socket.as_raw_fd(), bytes.as_ptr().cast(), length) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(TcpStream::from(socket)),
    }
}

/// Whether a started connection is established.
pub(crate) fn connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// The congestion control that `socket` uses.
pub(crate) fn congestion_of(socket: &impl AsRawFd) -> io::Result<String> {
    let mut name = [0u8; 16];
    let length = get_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let text = name[..length]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The congestion control that new sockets get for `wanted`.
pub(crate) fn congestion(wanted: Option<&str>) -> io::Result<String> {
    congestion_of(&create(&SocketAddr::from(([127, 0, 0, 1], 0)), wanted)?)
}

/// Bounds what the kernel queues between two ends of one node. On few CPUs the kernel lets the
/// sender queue some megabytes before the receiver runs, and by then they have left the cache. Within
/// a node there is no delay that needs a longer queue.
pub(crate) fn bound_send_buffer(socket: &impl AsRawFd) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_SNDBUF,
        &SEND_BUFFER.to_ne_bytes(),
    )
}

/// Whether an interface of this node has the address: only then can it be bound.
pub(crate) fn is_of_this_node(address: &SocketAddr) -> bool {
    create(address, None)
        .and_then(|socket| bind(&socket, address))
        .is_ok()
}

/// CPU and NAPI id that handled the last packet of `socket`; -1 and 0 if unknown.
pub(crate) fn arrival(socket: &impl AsRawFd) -> (i32, i32) {
    let ask = |name, unknown: i32| {
        let mut value = unknown.to_ne_bytes();
        match get_option(socket, libc::SOL_SOCKET, name, &mut value) {
            Ok(4) => i32::from_ne_bytes(value),
            _ => unknown,
        }
    };
    (
        ask(libc::SO_INCOMING_CPU, -1),
        ask(libc::SO_INCOMING_NAPI_ID, 0),
    )
}

/// Drops a percentage of the packets to `socket` from now on, with a kernel filter that runs
/// before TCP, so the peer retransmits as on a bad link. Needs no privilege.
pub(crate) fn lose(socket: &impl AsRawFd, percent: u32) -> io::Result<()> {
    // The filter drops a packet if a random number is below this.
    let below = u32::MAX / 100 * percent.min(100);
    let code = |code: u32| code as u16;
    let load = libc::sock_filter {
        code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
        jt: 0,
        jf: 0,
        k: RANDOM,
    };
    let test = libc::sock_filter {
        code: code(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K),
        jt: 1,
        jf: 0,
        k: below,
    };
    let answer = |bytes| libc::sock_filter {
        code: code(libc::BPF_RET | libc::BPF_K),
        jt: 0,
        jf: 0,
        k: bytes,
    };
    let mut some = [load, test, answer(0), answer(u32::MAX)];
    let mut all = [answer(0)];
    let filter: &mut [libc::sock_filter] = if percent >= 100 { &mut all } else { &mut some };
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw const program).cast());
    // SAFETY: `program` is `length` bytes and names `len` instructions; the kernel copies both.
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, length) })
        .map(drop)
}

/// A random number, as an ancillary load: `linux/filter.h`, SKF_AD_OFF + SKF_AD_RANDOM.
const RANDOM: u32 = 0xffff_f000 + 56;

/// `N` random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the buffer is ours and `N` long; up to 256 bytes come whole.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(got) == Ok(N) {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The text of an error, as from `strerror`.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn create(address: &SocketAddr, congestion: Option<&str>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let raw = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: `raw` was just opened and is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    if let Some(name) = congestion {
        set_option(
            &socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_bytes(),
        )?;
    }
    Ok(socket)
}

fn bind(socket: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    let mut host = *address;
    host.set_port(0);
    let bytes = wire::encode_address(host);
    let length = wire::address_bytes(address) as libc::socklen_t;
    // SAFETY: `bytes` holds a sockaddr of `length` bytes, and outlives the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), bytes.as_ptr().cast(), length) }).map(drop)
}

fn set_option(socket: &impl AsRawFd, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: `value` is `length` bytes and outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            length,
        )
    })
    .map(drop)
}

fn get_option(
    socket: &impl AsRawFd,
    level: c_int,
    name: c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, and its count to `length`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &mut length,
        )
    })?;
    Ok((length as usize).min(value.len()))
}

fn check(code: c_int) -> io::Result<c_int> {
    if code < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn until<T>(mut step: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(value) = step() {
                return value;
            }
            assert!(
                Instant::now() < deadline,
                "nothing happened for five seconds"
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_connection_starts_without_blocking() {
        let lo: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = listen(lo, None).unwrap();
        let stream = connect(lo, listener.local_addr().unwrap(), None).unwrap();
        until(|| connected(&stream).unwrap().then_some(()));
        let (accepted, peer) = until(|| listener.accept().ok());
        assert_eq!(peer, stream.local_addr().unwrap());
        assert_eq!(accepted.peer_addr().unwrap(), peer);
    }

    #[test]
    fn a_refused_connection_is_an_error() {
        let lo: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let closed = listen(lo, None).unwrap().local_addr().unwrap();
        let error = until(|| match connect(lo, closed, None) {
            Err(error) => Some(error),
            Ok(stream) => connected(&stream).err(),
        });
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(words(&error), "Connection refused");
    }

    #[test]
    fn congestion_control_is_the_given_one_or_the_system_s() {
        let system = congestion(None).unwrap();
        assert!(!system.is_empty());
        assert_eq!(congestion(Some("reno")).unwrap(), "reno");
        assert!(congestion(Some("no-such-control")).is_err());
    }

    #[test]
    fn a_bounded_send_buffer_takes_less_of_a_peer_that_does_not_read() {
        use std::io::Write;
        let lo: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = listen(lo, None).unwrap();
        let taken = |bounded: bool| {
            let mut stream = connect(lo, listener.local_addr().unwrap(), None).unwrap();
            until(|| connected(&stream).unwrap().then_some(()));
            let _unread = until(|| listener.accept().ok());
            if bounded {
                bound_send_buffer(&stream).unwrap();
            }
            // One call: what it takes is what the buffer holds.
            stream.write(&[0; 16 << 20]).unwrap()
        };
        let (bounded, free) = (taken(true), taken(false));
        assert!(bounded < free, "{bounded} {free}");
    }

    #[test]
    fn addresses_of_this_node_are_told_from_others() {
        for (address, is_own) in [
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("192.0.2.77:80", false),
            ("[2001:db8::77]:80", false),
        ] {
            assert_eq!(
                is_of_this_node(&address.parse().unwrap()),
                is_own,
                "{address}"
            );
        }
    }

    #[test]
    fn dropped_packets_do_not_arrive() {
        use std::io::{Read, Write};
        let lo: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = listen(lo, None).unwrap();
        let mut stream = connect(lo, listener.local_addr().unwrap(), None).unwrap();
        until(|| connected(&stream).unwrap().then_some(()));
        let (mut accepted, _) = until(|| listener.accept().ok());
        accepted.set_nonblocking(true).unwrap();
        // A lost packet in a hundred is retransmitted; with 100 % none arrives.
        lose(&accepted, 1).unwrap();
        stream.write_all(b"a").unwrap();
        assert_eq!(until(|| accepted.read(&mut [0; 8]).ok()), 1);
        lose(&accepted, 100).unwrap();
        stream.write_all(b"b").unwrap();
        // Loopback delivers within the call that sends.
        assert_eq!(
            accepted.read(&mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn randomness_is_not_all_zeros() {
        assert_ne!(random::<16>().unwrap(), [0; 16]);
    }
}
