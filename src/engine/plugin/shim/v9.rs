//! `ncclNet_v9_t`: `isend` and `irecv` take a `size_t` as well.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v9 version_calls 9);
