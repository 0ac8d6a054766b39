//! Whatever is planted in a run never comes out of what is made to be sent.

use super::fixture::{Names, stalled};
use crate::record::RunFiles;
use crate::redact::Redactor;
use crate::report::{Language, csv, gather, html, json, junit, markdown, prometheus, redacted, short};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_output_holds_a_planted_secret(
        host in "qz[a-z]{3,8}-[0-9]{1,3}",
        user in "qw[a-z]{4,9}",
        octets in any::<[u8; 3]>(),
        mac in any::<[u8; 5]>(),
        token in "ghp_[A-Za-z0-9]{20,30}",
    ) {
        let address = format!("11.{}.{}.{}", octets[0], octets[1], octets[2]);
        let mac: Vec<String> = std::iter::once(0x42).chain(mac).map(|byte| format!("{byte:02x}")).collect();
        let names = Names { host, user, address, mac: mac.join(":"), token };
        let run = tempfile::tempdir().expect("a folder");
        stalled(run.path(), &names);
        let story = gather(&RunFiles::open(run.path()).expect("a run"));
        let story = redacted(story, &mut Redactor::default());
        let outputs = [
            html(&story, true), markdown(&story, true, Language::English), json(&story).expect("JSON"), csv(&story), junit(&story), prometheus(&story),
            short(&story, Language::English), short(&story, Language::Chinese),
        ];
        for secret in [&names.host, &names.user, &names.address, &names.mac, &names.token] {
            for output in &outputs {
                prop_assert!(!output.contains(secret.as_str()), "{secret} in {}", &output[..200]);
            }
        }
    }
}
