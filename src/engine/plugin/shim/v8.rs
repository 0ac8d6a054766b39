//! `ncclNet_v8_t`: `regMr` takes a `size_t`; `isend` and `irecv` still a C int.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tcpx_abi::with_shape!(v8 version_calls 8);
