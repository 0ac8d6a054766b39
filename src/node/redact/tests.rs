//! Names, addresses and secrets are replaced, and everything else is kept.

use super::*;
use proptest::prelude::*;

fn check(text: &str, expected: &str) {
    let mut redactor = Redactor::new(["a3-node0"], ["maintainer"]);
    assert_eq!(redactor.redact(text), expected);
}

#[test]
fn a_short_value_of_both_cases_is_replaced_right_behind_the_name_of_a_secret() {
    check(
        "user1: password zOtrVM rejected",
        "user1: password SECRET rejected",
    );
    check(
        "wrong password 1tnMWL for user2",
        "wrong password SECRET for user2",
    );
    check(
        "the password PyTorch is wrong",
        "the password PyTorch is wrong",
    );
}

#[test]
fn a_value_in_quotes_is_replaced_where_the_line_begins_inside_a_string_and_behind_a_dollar() {
    for line in [
        "x', password='12345678', s='1')",
        "x\", \"a\": \"b\", db_password=\"a|b9\", s=\"1\")",
        "the cluster's password='12345678' was refused",
    ] {
        let redacted = Redactor::default().redact(line);
        assert!(
            !redacted.contains("12345678") && !redacted.contains("a|b9"),
            "{redacted}"
        );
    }
    // As `set -x` and `declare -p` of bash print it.
    let quoted = "declare -x DB_PASSWORD=$'abc \\tdef'";
    let redacted = Redactor::default().redact(quoted);
    assert_eq!(redacted, "declare -x DB_PASSWORD=$'SECRET'");
    let prompt = "expect \"Password:\" { send }";
    assert_eq!(Redactor::default().redact(prompt), prompt);
}

#[test]
fn a_verdict_is_no_name_of_a_secret_and_the_checks_behind_it_stay() {
    let catalogue = crate::doctor::Catalogue::embedded().expect("checks");
    let ids = catalogue.checks().map(|(_, check)| check.id.as_str());
    for id in ids.chain(["critical checks before the run"]) {
        for row in [
            format!("<tr><td>local</td><td>PASS</td><td>{id}</td><td>7 passed</td></tr>"),
            format!("| local | PASS | {id} | 7 passed |"),
        ] {
            let redacted = Redactor::default().redact_secrets(&row);
            assert_eq!(redacted, row);
        }
    }
    for row in [
        "<tr><td>PASS</td><td>hT7kQ2z!pW9</td></tr>",
        "<tr><td>local</td><td>PASS</td><td>hT7kQ2z!pW9</td></tr>",
        "| PASS | hT7kQ2z!pW9 |",
        "| local | PASS | hT7kQ2z!pW9 |",
    ] {
        let redacted = Redactor::default().redact_secrets(row);
        assert_eq!(redacted, row.replace("hT7kQ2z!pW9", "SECRET"));
    }
}

#[test]
fn a_word_that_is_told_once_is_found_alone_and_an_ordinary_one_is_not() {
    check(
        "the password is bavzukemqira\n\nworker 3 got bavzukemqira from rank 0",
        "the password is SECRET\n\nworker 3 got SECRET from rank 0",
    );
    check(
        "token: bavzukemqira\n\nworker 3 got bavzukemqira",
        "token: SECRET\n\nworker 3 got SECRET",
    );
    check(
        "the password is required\n\nit is required",
        "the password is required\n\nit is required",
    );
}

#[test]
fn a_host_that_is_a_word_stays_in_words_that_hyphens_join() {
    let with = |host: &str, text: &str| Redactor::new([host], [""; 0]).redact(text);
    let killed = "Killed process 71 (python3) total-vm:4194kB, anon-rss:33kB";
    for host in ["vm", "rss"] {
        assert_eq!(with(host, killed), killed);
    }
    assert_eq!(with("trainer", "trainer-count 4"), "trainer-count 4");
    for (host, text, expected) in [
        ("vm", "host vm: up", "host node0: up"),
        ("vm", "vm-7:71:71 x", "node0-7:71:71 x"),
        ("vm", "total-vm is", "total-node0 is"),
        ("vm", "zorblatt-vm:4kB", "zorblatt-node0:4kB"),
        ("trainer", "trainer-zorblatt 4", "node0-zorblatt 4"),
        ("zorblatt", "zorblatt-count 4", "node0-count 4"),
        ("trainer", "trainer.c.example-site.internal", "node0"),
    ] {
        assert_eq!(with(host, text), expected);
    }
}

#[test]
fn a_host_that_is_a_word_stays_in_names_of_variables() {
    let with = |host: &str, text: &str| Redactor::new([host], [""; 0]).redact(text);
    for (host, text, expected) in [
        (
            "proxy",
            "NCCL_PROXY_URL=https://proxy.corp:8080/x",
            "NCCL_PROXY_URL=https://node0:8080/x",
        ),
        (
            "proxy",
            "PROXY_URL=1 NCCL_PROXY=1",
            "PROXY_URL=1 NCCL_PROXY=1",
        ),
        ("proxy", "PROXY is up, proxy_x", "node0 is up, node0_x"),
        ("zorblatt", "NCCL_ZORBLATT_URL=1", "NCCL_node0_URL=1"),
    ] {
        assert_eq!(with(host, text), expected);
    }
}

#[test]
fn personal_names_are_replaced_and_technical_ones_are_kept() {
    check(
        "10.0.1.25\n10.0.1.26 10.0.2.25",
        "198.18.0.25\n198.18.0.26 198.18.1.25",
    );
    check(
        "10.0.1.25:8080, 127.0.0.1 255.255.255.0 0.0.0.0",
        "198.18.0.25:8080, 127.0.0.1 255.255.255.0 0.0.0.0",
    );
    check(
        "a3-node0 A3-Node0.c.project.internal xa3-node0",
        "node0 node0 xa3-node0",
    );
    check("/home/someone/x and someone", "/home/user1/x and user1");
    check("someone, then /Users/someone", "user1, then /Users/user1");
    check("by maintainer at 0000:06:00.0", "by user0 at 0000:06:00.0");
    check(
        "ether 42:01:0a:00:01:19 brd ff:ff:ff:ff:ff:ff",
        "ether 02:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff",
    );
    check(
        "fe80::4001:aff:fe00:119 ::1 std::vector",
        "2001:db8::1 ::1 std::vector",
    );
    check(
        "driver 535.129.03, NCCL 2.19.4, kernel 6.6.93+",
        "driver 535.129.03, NCCL 2.19.4, kernel 6.6.93+",
    );
    check("eth1:8-21,112-125;eth2:8-21", "eth1:8-21,112-125;eth2:8-21");
    check(
        "[\"10.0.1.25\",{\"name\":\"a3-node0\"}]",
        "[\"198.18.0.25\",{\"name\":\"node0\"}]",
    );
    check(
        "2026-11-20T10:15:00.123Z /usr/local/tcpx/lib64/libnccl-net.so",
        "2026-11-20T10:15:00.123Z /usr/local/tcpx/lib64/libnccl-net.so",
    );
}

#[test]
fn an_address_inside_a_word_is_replaced() {
    check(
        "Using [0]eth1:10.0.1.25<0> [1]eth2:10.0.1.26<0>",
        "Using [0]eth1:198.18.0.25<0> [1]eth2:198.18.0.26<0>",
    );
    check(
        "10.0.1.25-10.0.1.30 x10.0.1.9",
        "198.18.0.25-198.18.0.30 x198.18.0.9",
    );
    check(
        "dev:fe80::1%eth0 [fd00::2]:80",
        "dev:2001:db8::1%eth0 [2001:db8::2]:80",
    );
    check("mac=42-01-0A-00-01-19", "mac=02:00:00:00:00:00");
}

#[test]
fn a_host_that_is_named_like_a_placeholder_loses_its_domain_and_shares_it_with_no_other() {
    let mut redactor = Redactor::new(["node1", "gpu-box-7"], []);
    assert_eq!(
        redactor.redact("node1.c.acme-train.internal gpu-box-7 node1"),
        "node1 node2 node1"
    );
}

#[test]
fn hosts_in_log_lines_and_secrets_are_replaced() {
    check(
        "gpu-box-7:71:84 [0] NCCL INFO x\nfrom gpu-box-7",
        "node1:71:84 [0] NCCL INFO x\nfrom node1",
    );
    check("db7.corp says", "node1 says");
    // The domain may have the name again.
    check("db7.corp db7.a.db7.b db7", "node1 node1 node1");
    check("token ghp_abcdefghijklmnopqrstuvwxyz", "token SECRET");
    check(
        "HF_TOKEN=abc, password: \"hunter2\"",
        "HF_TOKEN=SECRET, password: \"SECRET\"",
    );
    check(
        "Authorization: Bearer abcdefghijklmnop123",
        "Authorization: Bearer SECRET",
    );
    check("--password=p@ss/w0rd next", "--password=SECRET next");
    check("Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MGFiY2RlZg", "SECRET");
    check(
        "sha256 3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88",
        "sha256 3d29f0ffb4fd4406e92eaee687d4525235ae9648ca5f01ab1be47c963920ac88",
    );
}

#[test]
fn json_strings_are_redacted_with_their_escapes() {
    let mut redactor = Redactor::new(["a3-node0"], []);
    let line = r#"{"text":"a\n10.0.1.25\t\"a3-node0\"","n":10.0,"HF_TOKEN":"x"}"#;
    assert_eq!(
        redactor.redact_json_line(line),
        r#"{"text":"a\n198.18.0.25\t\"node0\"","n":10.0,"HF_TOKEN":"SECRET"}"#
    );
    let value =
        redactor.redact_value(serde_json::json!({ "HF_TOKEN": "x", "a3-node0": [ "10.0.1.25" ] }));
    assert_eq!(
        value,
        serde_json::json!({ "HF_TOKEN": "SECRET", "node0": [ "198.18.0.25" ] })
    );
}

/// A value that nothing but its place shows to be a secret.
const PLAIN: &str = "quietly-Burning7candle";

#[test]
fn a_secret_is_replaced_in_every_layout() {
    let layouts = r#"HF_TOKEN=V
export DB_PASSWORD='V' # set
docker run -e HF_TOKEN=V image
prog --password V --verbose
prog --api-key=V
prog --token "V"
"password": "V",
{'password': 'V'}
password: V
  client_secret: "V"
- name: HF_TOKEN~  value: V
{"name": "HF_TOKEN", "value": "V"}
["--password", "V"]
("HF_TOKEN", "V")
| HF_TOKEN | - | V |
| `HF_TOKEN` | `V` |
<tr><td>HF_TOKEN</td><td>V</td></tr>
<tr><td><code>HF_TOKEN</code></td><td>-</td><td class="x"><code>V</code></td></tr>
<dt>password</dt><dd>V</dd>
<password>V</password>
<input name="x" password="V">
HF_TOKEN    V    3
X-Api-Key: V
Authorization: Bearer V
Authorization: Token V
Cookie: session=V; theme=dark
https://host/x?token=V&y=1
https://host/x?a=b&amp;sig=V
https://someone:V@registry.example.com/x
postgres://app:V@10.0.1.25:5432/db
token => V
secret := V
HF_TOKEN%3DV
\"password\": \"V\"
&quot;password&quot;: &quot;V&quot;
password = Some("V")
Config { user: "x", password: "V" }
apikey: |~  V~other: 1
AccountName=x;AccountKey=V;EndpointSuffix=y
HF_TOKEN,V,1
PGPASSWORD=V
export SSHPASS=V
USERPWD=V
export MNEMONIC=V
APP_KEY: V
'wandb_key': 'V',
{"auths":{"registry.example.com":{"auth":"V"}}}
Driver={ODBC};Server=db;UID=sa;PWD=V;
curl -sS -u deploy:V https://host/x
curl --user=deploy:V https://host/x
mysql -uroot -pV -h db
sshpass -p V ssh x
docker login -u someone -p V registry.example.com
redis-cli -a V ping
zip -P V a.zip b
ldapsearch -D cn=admin -w V -b dc=x
openssl rsa -passin pass:V
openssl enc -aes-256-cbc -k V
htpasswd -b file someone V
net use z: \\srv\share V /user:someone
echo V | docker login --password-stdin -u someone
echo 'root:V' | chpasswd
machine host login deploy password V
db.example.com:5432:prod:app:V
jdbc:oracle:thin:scott/V@db:1521/orcl
login failed: password 'V' rejected
using password V for user deploy
the password is V
Password for deploy: V
Enter passphrase for key '/x/id_ed25519': V
密码：V
密码为 V
Passwort: V
mot de passe : V
CREATE USER app WITH PASSWORD 'V';
ALTER USER app IDENTIFIED BY 'V';
NCCL_AUTH_TOKEN set by environment to V.
setenv DB_PASSWORD V
ENV DB_PASSWORD V
password    V
password = """V"""
{\"inner\": \"{\\\"password\\\": \\\"V\\\"}\"}
{"value":"V","name":"DB_PASSWORD"}
x {"Key":"DB_PASSWORD","Value":"V"}
<Password encrypted="false">V</Password>
│ DB_PASSWORD │ V │
^[32mDB_PASSWORD^[0m=^[1mV^[0m
DB_PASSWORD＝V"#;
    for layout in layouts.lines() {
        let text = layout
            .replace('V', PLAIN)
            .replace('~', "\n")
            .replace('^', "\u{1b}")
            .replace(&format!("\"{PLAIN}alue\""), "\"Value\"");
        let redacted = Redactor::default().redact(&text);
        assert!(!redacted.contains(PLAIN), "{text}\n{redacted}");
        assert!(redacted.contains("SECRET"), "{redacted}");
        let again = Redactor::default().redact(&redacted);
        assert_eq!(again, redacted, "redacted twice");
    }
}

#[test]
fn a_closing_tag_takes_nothing_of_what_follows() {
    check(
        "<Password x=\"y\">quietly</Password>\nlast line <password/> of it",
        "<Password x=\"y\">SECRET</Password>\nlast line <password/> of it",
    );
    check(
        "<td><pre>x: 79, Cookie: a=quietly9Loud; b=1</pre></td>\nlast line",
        "<td><pre>x: 79, Cookie: SECRET</pre></td>\nlast line",
    );
}

#[test]
fn a_published_sentence_of_the_kernel_is_kept_in_the_value_of_a_header() {
    for name in ["Cookie", "Authorization", "Set-Cookie"] {
        let line = |value: &str, end: &str| {
            format!("NVRM: Xid (PCI:0000:04:00): 79, {name}: {value} fallen off the bus.{end}\nx\n")
        };
        let all = line(&format!("a={PLAIN}, GPU has"), &format!(" b={PLAIN}"));
        check(&all, &line("SECRET", "SECRET"));
    }
}

#[test]
fn ordinary_text_is_kept() {
    for text in [
        "pass 3 of 5: passed",
        "the key is window-never-consumed",
        "max_tokens=512 token_count: 7",
        "HF_TOKEN is not set",
        "HF_TOKEN=$HF_TOKEN tcpxctl run a.toml",
        "| HF_TOKEN | - | SECRET |",
        "PWD=/work/tcpxctl",
        "RuntimeError: c10::DistBackendError at c10d::Work",
        "auth(1, 2) checked; token (\"the first\", \"the last\")",
        "grant_type=refresh_token&refresh_token=SECRET&client_id=web",
        "_ZN7tcpxctl6worker4load17h0123456789abcdefE",
        "/usr/local/Lib64/GPUDirectTCPX_v7/Build2024/libnccl-net.so.0",
        "getty@tty1.service memcpy@GLIBC_2.14 libnccl@2.19",
        "http://host:8080/path/x",
        "sk-learn-some-long-words hf_hub_download_timeout",
        "wrong secret from worker-12 after 12.5ms, token 0x7f00dead12 at slot12",
        "password authentication took 3.2GB/s.\nSee job4x7a1b for more",
        "PASS=3 FAIL=0 cache_key=3d29f0ffb4fd4406 sort_key: a1b2c3d4e5",
        "docker run -p 8080:80 image; the login was at 10:15:00.123",
    ] {
        check(text, text);
    }
}

#[test]
fn a_secret_that_one_place_shows_is_replaced_in_every_form() {
    let url: String = PLAIN.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let html: String = PLAIN.bytes().map(|byte| format!("&#{byte};")).collect();
    let wrapped = format!("{}\n    {}", &PLAIN[..9], &PLAIN[9..]);
    let continued = format!("{}\\\n{}", &PLAIN[..9], &PLAIN[9..]);
    let encoded = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let forms = [
        PLAIN.to_owned(),
        format!("x{PLAIN}y"),
        url.replace('%', "%25"),
        url,
        html,
        wrapped,
        continued,
        encoded(PLAIN),
        encoded(&format!("a{PLAIN}:x")),
        encoded(&format!("ab{PLAIN}")),
        tcpx_words::units::hex(PLAIN.as_bytes()),
        PLAIN[..14].to_owned(),
        PLAIN[8..].to_owned(),
    ];
    let mut redactor = Redactor::default();
    redactor.learn(&format!("HF_TOKEN={PLAIN}"));
    for form in forms {
        let redacted = redactor.redact(&format!("before {form} after"));
        let lines = form.matches('\n').count();
        let expected = format!("before SECRET{} after", "\n".repeat(lines));
        assert!(
            redacted == expected || redacted == "before xSECRETy after",
            "{form}: {redacted}"
        );
    }
    assert!(redactor.map().is_empty(), "{:?}", redactor.map());
}

#[test]
fn json_inside_a_text_is_redacted_as_json() {
    let inner = serde_json::json!({ "argv": format!("X-Api-Key: {PLAIN}\nAuthorization: none\n") });
    let outer = serde_json::json!({ "text": inner.to_string() });
    let mut redactor = Redactor::default();
    redactor.learn_value(&outer);
    let expected = r#"{"argv":"X-Api-Key: SECRET\nAuthorization: none\n"}"#;
    assert_eq!(redactor.redact_value(outer)["text"], expected);
    // A part of a document is no document; its secrets are learned without what follows.
    let mut redactor = Redactor::default();
    let _ = redactor.redact(&format!("msg {}", &inner.to_string()[9..]));
    assert_eq!(
        redactor.redact(&format!("a {PLAIN} b none")),
        "a SECRET b none"
    );
}

#[test]
fn a_short_or_ordinary_secret_is_replaced_in_its_place_only() {
    let mut redactor = Redactor::default();
    assert_eq!(
        redactor.redact("PASSWORD=eth0 A_TOKEN=hunter2"),
        "PASSWORD=SECRET A_TOKEN=SECRET"
    );
    assert_eq!(
        redactor.redact("eth0 is up, hunter2 hunter22"),
        "eth0 is up, SECRET hunter22"
    );
}

#[test]
fn shapes_of_tokens_are_replaced() {
    let tail = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY";
    for token in [
        format!("glpat-{}", &tail[..20]),
        format!("AKIA{}", "ABCDEFGHIJKLMNOP"),
        format!("xoxb-1234567890-{tail}"),
        format!("hf_{tail}"),
        format!("sk-proj-{tail}"),
        format!("AIza{tail}abc"),
        format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{tail}"),
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzY9xQk4L2a".to_owned(),
        "$6$saltsalt$abcdefghijkl".to_owned(),
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----".to_owned(),
        "-----BEGIN PRIVATE KEY-----\\nMIIEow\\n-----END PRIVATE KEY-----\\n".to_owned(),
    ] {
        let redacted = Redactor::default().redact(&format!("a {token} b"));
        let plain = redacted.replace(['\n', '\\', 'n'], "");
        assert_eq!(plain, "a SECRET b", "{token}");
    }
    let webhook = "https://hooks.slack.com/services/T0/B0/abc";
    check(webhook, "https://hooks.slack.com/SECRET");
}

#[test]
fn ids_of_persons_projects_and_pods_are_replaced() {
    check("from Ada <ada.l+x@mail.example.com>", "from Ada <email0>");
    check("bot@acme-train-42.iam.gserviceaccount.com", "email0");
    check(
        "vm.c.acme-train-42.internal in acme-train-42",
        "node1 in project0",
    );
    check(
        "projects/acme-train-42/zones/z and /home/x/projects/y/src",
        "projects/project0/zones/z and /home/x/projects/y/src",
    );
    check(
        "gs://acme-logs/x and acme-logs",
        "gs://bucket0/x and bucket0",
    );
    check(
        "boot 6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "boot 00000000-0000-4000-8000-000000000000",
    );
    check(
        "kubepods-pod6f9619ff_8b86_d011_b42d_00c04fc964ff.slice",
        "kubepods-pod00000000-0000-4000-8000-000000000000.slice",
    );
    check("ssh ada@10.0.0.226; ada", "ssh user1@198.18.0.226; user1");
    for (text, expected) in [
        (
            "boot id 8f14e45fceea467fa8d2b1c0d3e4f506, boot id: 3d29f0ff",
            "boot id machine0, boot id: machine1",
        ),
        ("Boot ID:   8f14e45f-ceea-467f-a8d2", "Boot ID:   machine0"),
        (
            "pod 8f14e45f-ceea-\u{2026} of pod \"3d29f0ffb4fd\" is gone",
            "pod node1-\u{2026} of pod \"node2\" is gone",
        ),
        (
            "boot id 6f9619ff-8b86-d011-b42d-00c04fc964ff",
            "boot id 00000000-0000-4000-8000-000000000000",
        ),
        (
            "boot id missing, pod 12345678, node 0x3d29f0ff",
            "boot id missing, pod 12345678, node 0x3d29f0ff",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn redacting_twice_changes_nothing() {
    let mut redactor = Redactor::new(["a3-node0"], ["maintainer"]);
    let once = redactor.redact("a3-node0 10.0.1.25 fd00::1 42:01:0a:00:01:19 maintainer");
    let mut again = Redactor::default();
    again.host("node0");
    assert_eq!(
        again.redact(&once).split(' ').take(3).collect::<Vec<_>>(),
        once.split(' ').take(3).collect::<Vec<_>>()
    );
}

#[test]
fn the_seeds_of_the_fuzz_target_hold() {
    tcpx_words::seeds::read("redact", "")
        .iter()
        .for_each(|seed| fuzzing::bytes(seed));
}

#[test]
fn secrets_of_configuration_files_and_commands_are_replaced() {
    for (text, secret) in [
        (
            "machine x login ada password letmeinplease",
            "letmeinplease",
        ),
        ("default login ada password hunter", "hunter"),
        ("machine x\n  login ada\n  password hunter\n", "hunter"),
        ("ada:hunter2@tcp(db:3306)/runs", "hunter2"),
        (
            "sent Basic YWRhOmxldG1laW5wbGVhc2U= on",
            "YWRhOmxldG1laW5wbGVhc2U",
        ),
        (
            r#"{"auths":{"x":{"auth":"YWRhOmxldGVpbg=="}}}"#,
            "YWRhOmxldGVpbg",
        ),
        ("_auth=YWRhOnBxeHhxeHhx", "YWRhOnBxeHhxeHhx"),
        (
            "client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL",
            "LS0tLS1CRUdJTi",
        ),
        (
            "https://x/o?X-Goog-Signature=00aa11bb22cc33dd&x=1",
            "00aa11bb22cc33dd",
        ),
        (
            "https://x/o?y=1&X-Amz-Signature=00aa11bb22cc33dd",
            "00aa11bb22cc33dd",
        ),
        ("joining with abcdef.0123456789abcdef", "0123456789abcdef"),
        ("sqlcmd -S db -U ada -P quietly", "quietly"),
        ("smbclient //db/x -U ada%quietly", "quietly"),
        ("redis-server --requirepass quietly", "quietly"),
        ("aws configure set aws_secret_access_key quietly", "quietly"),
        ("npm config set //r/:_authToken quietly", "quietly"),
        (
            "mc alias set s3 https://x AKID quiet7ly3secret9",
            "quiet7ly3secret9",
        ),
        ("api_token ........ quiet_7Burning", "quiet_7Burning"),
        ("body=%7B%22password%22%3A%22quietly%22%7D", "quietly"),
        ("- {name: UPLOAD_TOKEN, value: \"quietly\"}", "quietly"),
        ("auth=(\"ada\", \"quiet_7Burning\")", "quiet_7Burning"),
        ("HTTPBasicAuth('ada', 'quiet_7Burning')", "quiet_7Burning"),
        ("user,password,age\nada,quietly,3\nbob,candle,4", "candle"),
        (
            "ada:$apr1$F3eZOARz$nqXascqXflNqWCSBtgtYdE",
            "nqXascqXflNqWCSBtgtYdE",
        ),
    ] {
        let out = Redactor::default().redact(text);
        assert!(!out.contains(secret), "{text} => {out}");
    }
}

proptest! {
    #[test]
    fn an_address_never_survives(octets in any::<[u8; 4]>(), before in "[ ,=\"(:a-z-]", after in "[ ,\")/\n<:-]") {
        let address = Ipv4Addr::from(octets);
        prop_assume!(!address.is_loopback() && !address.is_unspecified() && octets[0] != 255);
        prop_assume!(!(octets[0] == 198 && octets[1] & 0xfe == 18));
        let mut redactor = Redactor::default();
        let text = redactor.redact(&format!("x{before}{address}{after}y"));
        prop_assert!(!text.contains(&address.to_string()), "{}", text);
    }

    #[test]
    fn a_secret_is_replaced_in_any_surroundings(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[ -~\n]{0,200}") {
        super::fuzzing::bytes(&bytes);
        super::fuzzing::bytes(text.as_bytes());
    }

    #[test]
    fn redacted_text_has_as_many_lines(text in "\\PC{0,120}") {
        let mut redactor = Redactor::new(["host7"], ["someone"]);
        let once = redactor.redact(&text);
        prop_assert_eq!(once.lines().count(), text.lines().count());
        let _ = redactor.redact_json_line(&text);
    }

    #[test]
    fn any_bytes_of_a_recorder_are_redacted(bytes in prop::collection::vec(any::<u8>(), 0..6000), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"TCPXREC\0");
        }
        let mut redactor = Redactor::new(["host7"], ["someone"]);
        redactor.learn_recorder(&bytes);
        redactor.redact_recorder(&mut bytes);
    }
}

/// Words that lines were full of when their time grew with the square of their length, or a secret was lost.
const FILLERS: [&str; 9] = [
    "key=\"",
    "sk-",
    "token|",
    "password:",
    "a:",
    "1.",
    "curl -u a:b ",
    "Authorization: Bearer ",
    "?key=",
];

proptest! {
    // Each case is a line of some 50 KB.
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Without an end of a line, whatever surrounds it and wherever a part of the line ends.
    #[test]
    fn a_secret_is_replaced_wherever_it_stands_on_a_long_line(
        filler in prop_oneof!["[ -~]{1,40}", prop::sample::select(FILLERS.to_vec()).prop_map(str::to_owned)],
        before in 0..40_000_usize,
        behind in 0..40_000_usize,
    ) {
        const TOLD: &str = "quietly-Burning7candle";
        let around = |bytes: usize| filler.repeat(bytes / filler.len());
        let line = format!("{}\\\" HF_TOKEN={TOLD} {}", around(before), around(behind));
        let redacted = Redactor::default().redact(&line);
        prop_assert!(!redacted.contains(TOLD), "{redacted}");
    }

    #[test]
    fn a_value_in_quotes_is_replaced_wherever_it_stands_on_a_long_line(
        filler in prop_oneof![Just("x='y', "), Just("it's "), Just("\"a\": 'b\", "), Just("'")],
        before in 0..40_000_usize,
        behind in 0..40_000_usize,
    ) {
        let around = |bytes: usize| filler.repeat(bytes / filler.len());
        let line = format!("{} password='11223344', {}", around(before), around(behind));
        let redacted = Redactor::default().redact(&line);
        prop_assert!(!redacted.contains("11223344"), "{redacted}");
    }
}

#[test]
fn headers_of_lines_are_no_secrets_and_end_those_above_them() {
    let nccl = "node0:71:79 [3] NCCL INFO Channel 00/02 :    0   1";
    for (text, expected) in [
        (
            "echo \"umbrella21Circus893\" | docker login --password-stdin\nNCCL\nNCCL",
            "echo \"SECRET\" | docker login --password-stdin\nNCCL\nNCCL",
        ),
        (
            "password: [see\nNCCL\nNCCL",
            "password: [SECRET\nNCCL\nNCCL",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space\nJava 17 starts",
            "java.lang.OutOfMemoryError: Java heap space\nJava 17 starts",
        ),
        (
            "--token\n2026-11-26 10:15:00 x",
            "--token\n2026-11-26 10:15:00 x",
        ),
    ] {
        let (text, expected) = (text.replace("NCCL", nccl), expected.replace("NCCL", nccl));
        assert_eq!(Redactor::default().redact(&text), expected);
    }
}

#[test]
fn a_message_behind_a_header_is_searched_as_a_line() {
    for before in [
        "[rank3]: RuntimeError: ",
        "srun: error: node0: task 3: ",
        "2026-11-26 10:15:00 ERROR ",
    ] {
        for text in [
            "Password:\nbavzu7kemqira",
            "db:5432:jobs:bob:bavzu7kemqira",
            "name,api_key,n\nbob,bavzu7kemqira,3",
        ] {
            let text: Vec<String> = text.lines().map(|line| format!("{before}{line}")).collect();
            let redacted = Redactor::default().redact(&text.join("\n"));
            assert!(!redacted.contains("kemqira"), "{redacted}");
            assert_eq!(redacted.matches(before).count(), text.len(), "{redacted}");
        }
    }
}

#[test]
fn variables_beside_one_whose_value_was_replaced_keep_their_names_and_values() {
    let table = "| HF_TOKEN | SECRET | - |\n| NCCL_GREETING | hello | - |\n| CUDA_WORD | velvet-canyon | - |\n";
    check(table, table);
    check(
        "NCCL_HOSTID = \"kestrel-gpu18\"\nfrom kestrel-gpu18",
        "NCCL_HOSTID = \"node1\"\nfrom node1",
    );
}

#[test]
fn phrases_of_words_are_secrets_behind_keys_of_products_and_commands() {
    for (text, expected) in [
        (
            "docker run -e WANDB_KEY=hazel-glacier-saddle-fabric train:1",
            "docker run -e WANDB_KEY=SECRET train:1",
        ),
        (
            "config {'wandb_key': 'hazel-glacier-saddle-fabric'}",
            "config {'wandb_key': 'SECRET'}",
        ),
        (
            "PresharedKey=hazel-glacier-saddle-fabric",
            "PresharedKey=SECRET",
        ),
        (
            "wandb login hazel-glacier-saddle-fabric",
            "wandb login SECRET",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn a_short_password_a_project_and_the_host_of_a_url_are_replaced_in_sentences() {
    for (text, expected) in [
        (
            "RuntimeError: login failed for root with password q7hUNj: no access",
            "RuntimeError: login failed for root with password SECRET: no access",
        ),
        (
            "NCCL WARN pod node1 of project prj-xarbekk-77 bucket gs://bkt-zorblatt/ckpt",
            "NCCL WARN pod node1 of project project0 bucket gs://bucket0/ckpt",
        ),
        (
            "request to https://bob:p4ssW0rdZ9q@registry.sisptza.io/x failed, registry.sisptza.io is down",
            "request to https://SECRET@node0/x failed, node0 is down",
        ),
    ] {
        let redacted = Redactor::default().redact(text);
        assert_eq!(redacted, expected);
        assert_eq!(Redactor::default().redact(&redacted), expected, "again");
    }
    let kept = "the project is built, the bucket sizes, a registry in a project file";
    assert_eq!(Redactor::default().redact(kept), kept);
}

#[test]
fn the_user_of_a_url_is_replaced_with_the_password() {
    for (text, expected) in [
        (
            "https://bob:p4ssW0rdZ9q@host:3128/ of bob",
            "https://SECRET@host:3128/ of bob",
        ),
        ("http://al:p4ssW0rdZ9@prox:1/", "http://SECRET@node0:1/"),
        ("x=http://al:***@prox:1/", "x=http://SECRET@node0:1/"),
        (
            "see http://host:8080/path/@x",
            "see http://host:8080/path/@x",
        ),
    ] {
        let redacted = Redactor::default().redact(text);
        assert_eq!(redacted, expected);
        assert_eq!(Redactor::default().redact(&redacted), expected, "again");
    }
}

#[test]
fn a_number_right_behind_the_name_of_a_secret_is_replaced_and_other_numbers_are_not() {
    for line in [
        "the password is #",
        "db password # was refused",
        "using your PIN #, as before",
        "the pin is #",
        "my pass is \"#\"",
        "pass was #.",
        "verification code: #",
        "login code #",
        "the code is #",
        "client secret was #",
        "secret #",
        "the api token # has no rights",
        "my token is #",
        "passwort ist #",
        "your OTP #",
    ] {
        let line = format!(
            "node0:71:79 [3] NCCL WARN {}",
            line.replace('#', "48151623")
        );
        let redacted = Redactor::default().redact(&line);
        assert!(!redacted.contains("48151623"), "{redacted}");
    }
    for line in [
        "exited with exit code 134217728",
        "the error code is 100001",
        "return code was 3221225477",
        "pass 100000 of 200000",
        "token 151643 is not in the vocabulary",
        "the pad token is 128001",
        "failed to pin 1048576 bytes",
        "secret of 1048576 bytes",
        "key 1234567",
        "your connection 4815162 was closed",
        "tokens 1048576, code 1048576",
    ] {
        assert_eq!(Redactor::default().redact(line), line);
    }
}

#[test]
fn a_pci_root_is_no_host() {
    let text = "a GPU on pci0000:c0, eth0 at pci0001:00, /sys/devices/pci0000:c0/0000:c0:03.0";
    assert_eq!(Redactor::default().redact(text), text);
    let found = "a run on kalomi:29500";
    assert_eq!(Redactor::default().redact(found), "a run on node0:29500");
}
