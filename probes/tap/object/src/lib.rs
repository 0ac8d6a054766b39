//! `libnccl_net_tcpxtap.so`: a table of every version, of which those stay that
//! the plugin behind it exports. All of it is in `tcpx_tap`.

use tcpx_tap::shared_object;

tcpx_tap::abi::with_versions!(shared_object);
