//! Programs and configuration commands of which an argument is a secret, and how their options carry it.
//!
//! Not here: long options whose name tells it (`--password`), which `pairs.rs` finds for every program.
#![forbid(unsafe_code)]

/// How the options of a program carry a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carries {
    /// The next word, or the rest of this one.
    Value,
    /// The rest of this word.
    Attached,
    /// What follows the colon of `user:VALUE`.
    AfterColon,
    /// What follows the percent sign of `user%VALUE`.
    AfterPercent,
    /// What follows the second sign of `--from-literal=key=VALUE`.
    AfterSign,
    /// The next word, whether or not an option stands before it.
    First,
    /// Any word of the command that looks chosen.
    Chosen,
    /// The same, and a number.
    Key,
    /// A word of 40 hexadecimal digits, which otherwise is a hash.
    Hash,
    /// What follows the equals sign of `name=VALUE`.
    AfterEquals,
    /// What stands between the slash and the at sign of `user/VALUE@host`.
    AfterSlash,
    /// The second word behind the option: `user,VALUE`.
    SecondValue,
    /// The second word of the command that is no option.
    Second,
}

/// Programs, or a program and its subcommand, and their options.
pub(super) const PROGRAMS: [(&str, &[&str], Carries); 93] = [
    ("ConvertTo-SecureString", &[], Carries::First),
    ("useradd", &["-p"], Carries::Value),
    ("usermod", &["-p"], Carries::Value),
    ("mkpasswd", &[], Carries::Chosen),
    ("rclone obscure", &[], Carries::Chosen),
    ("mosquitto_pub", &["-P"], Carries::Value),
    ("huggingface-cli login", &["--token"], Carries::Chosen),
    ("ngc config", &[], Carries::Chosen),
    ("ftp", &[], Carries::Chosen),
    ("wandb:", &[], Carries::Hash),
    ("--from-literal", &[], Carries::AfterSign),
    (
        "curl",
        &["-u", "--user", "-U", "--proxy-user"],
        Carries::AfterColon,
    ),
    ("mysql", &["-p"], Carries::Attached),
    ("mysqldump", &["-p"], Carries::Attached),
    ("mysqladmin", &["-p"], Carries::Attached),
    ("mariadb", &["-p"], Carries::Attached),
    ("7z", &["-p"], Carries::Attached),
    ("sshpass", &["-p"], Carries::Value),
    ("login", &["-p"], Carries::Value),
    ("mongo", &["-p"], Carries::Value),
    ("mongosh", &["-p"], Carries::Value),
    ("redis-cli", &["-a"], Carries::Value),
    ("zip", &["-P"], Carries::Value),
    ("unzip", &["-P"], Carries::Value),
    ("ipmitool", &["-P"], Carries::Value),
    ("ldapsearch", &["-w"], Carries::Value),
    ("ldapadd", &["-w"], Carries::Value),
    ("ldapmodify", &["-w"], Carries::Value),
    ("ldapwhoami", &["-w"], Carries::Value),
    ("openssl", &["-k", "-K"], Carries::Value),
    ("snmpget", &["-c", "-A", "-X"], Carries::Value),
    ("snmpwalk", &["-c", "-A", "-X"], Carries::Value),
    ("sqlcmd", &["-P"], Carries::Value),
    ("vault login", &[], Carries::Chosen),
    ("alias set", &[], Carries::Chosen),
    ("smbclient", &["-U", "--user"], Carries::AfterPercent),
    ("wandb login", &[], Carries::Key),
    ("ctrl+c to quit:", &[], Carries::First),
    ("net use", &[], Carries::Chosen),
    ("htpasswd", &[], Carries::Chosen),
    ("curl", &["-b", "--cookie"], Carries::AfterEquals),
    ("etcdctl", &["--user"], Carries::AfterColon),
    ("http -a", &[""], Carries::AfterColon),
    ("stats auth", &[""], Carries::AfterColon),
    ("lftp", &["-u"], Carries::SecondValue),
    ("sqlplus", &[""], Carries::AfterSlash),
    ("beeline", &["-p"], Carries::Value),
    ("cqlsh", &["-p"], Carries::Value),
    ("cypher-shell", &["-p"], Carries::Value),
    ("mongodump", &["-p"], Carries::Value),
    ("mongorestore", &["-p"], Carries::Value),
    ("mosquitto_sub", &["-P"], Carries::Value),
    ("psexec", &["-p"], Carries::Value),
    ("certutil", &["-p"], Carries::Value),
    ("rdesktop", &["-p"], Carries::Value),
    ("xfreerdp", &["/p:"], Carries::Value),
    ("cmdkey", &["/pass:"], Carries::Value),
    ("hydra", &["-p"], Carries::Value),
    ("doctl", &["-t"], Carries::Value),
    ("ssh-keygen", &["-N", "-P"], Carries::Value),
    (
        "keytool",
        &["-storepass", "-keypass", "-srcstorepass", "-deststorepass"],
        Carries::Value,
    ),
    ("jarsigner", &["-storepass", "-keypass"], Carries::Value),
    ("erl", &["-setcookie"], Carries::Value),
    ("unrar", &["-p"], Carries::Attached),
    ("rar", &["-p", "-hp"], Carries::Attached),
    ("rpcclient", &["-U"], Carries::AfterPercent),
    ("net user", &[], Carries::Second),
    (
        "pdftk",
        &["input_pw", "user_pw", "owner_pw"],
        Carries::Value,
    ),
    ("cargo login", &[], Carries::Chosen),
    ("npm set", &[], Carries::Chosen),
    ("encrypt_string", &[], Carries::Chosen),
    ("add_user", &[], Carries::Chosen),
    ("change_password", &[], Carries::Chosen),
    ("db.auth", &[], Carries::Chosen),
    ("PSCredential", &[], Carries::Chosen),
    ("login()", &[], Carries::Chosen),
    ("LOGIN", &[], Carries::Chosen),
    ("login with", &[], Carries::Chosen),
    ("log in with", &[], Carries::Chosen),
    ("logged in with", &[], Carries::Chosen),
    ("NickServ identify", &[], Carries::Chosen),
    ("add-mask", &[], Carries::Chosen),
    ("snmp-server community", &[], Carries::Chosen),
    ("snmp-server user", &[], Carries::Chosen),
    ("tacacs-server key", &[], Carries::Chosen),
    ("radius-server key", &[], Carries::Chosen),
    ("server-private", &[], Carries::Chosen),
    ("message-digest-key", &[], Carries::Chosen),
    ("authentication-key", &[], Carries::Chosen),
    ("key-string", &[], Carries::Chosen),
    ("sec_basic_key", &[], Carries::Chosen),
    ("user =", &[""], Carries::AfterColon),
    ("proxy-user =", &[""], Carries::AfterColon),
];
