//! `ncclNet_v7_t`, recorded: `regMr` takes its size as a C int.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

tap_version!(tcpx_abi::v7, std::ffi::c_int, 0);
