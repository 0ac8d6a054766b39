//! `libnccl_net_tcpxtap.so`: a table of every version; those that the plugin behind it does not
//! export are hidden at load time. The code is in `tcpx_tap`.

use tcpx_tap::shared_object;

tcpx_tap::abi::with_versions!(shared_object);
