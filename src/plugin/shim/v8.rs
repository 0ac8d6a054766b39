//! `ncclNet_v8_t`: `regMr` takes a `size_t`; `isend` and `irecv` still a C int.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

net_shim!(tcpx_abi::v8, 8, V8, usize);
