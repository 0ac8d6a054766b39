//! The order of `Hello` and `Proof`, for either end, without a socket or a clock.
//!
//! Deliberately unable to continue after a refusal: the caller drops the
//! connection. What a peer claims about itself is believed only once proven.
#![forbid(unsafe_code)]

use super::auth::{Nonces, Secret};
use super::error::Cause;
use super::message::{Message, PROTOCOL_VERSION, Refusal, Role};

pub(super) struct Handshake<'a> {
    role: Role,
    secret: &'a Secret,
    config_sha256: [u8; 32],
    nonce: [u8; 32],
    nonces: Option<Nonces>,
}

/// What follows from a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Say this and go on listening.
    Say(Message),
    /// The peer knows the secret and claims this configuration; say this, if
    /// there is something left to say.
    Proven {
        config_sha256: [u8; 32],
        say: Option<Message>,
    },
}

impl<'a> Handshake<'a> {
    /// `nonce` must be fresh.
    pub(super) fn new(
        role: Role,
        secret: &'a Secret,
        config_sha256: [u8; 32],
        nonce: [u8; 32],
    ) -> Self {
        Self {
            role,
            secret,
            config_sha256,
            nonce,
            nonces: None,
        }
    }

    pub(super) fn hello(&self) -> Message {
        Message::Hello {
            role: self.role,
            nonce: self.nonce,
        }
    }

    /// Whether the peer has said hello.
    pub(super) fn greeted(&self) -> bool {
        self.nonces.is_some()
    }

    pub(super) fn hear(&mut self, message: Message) -> Result<Step, Cause> {
        match (message, self.nonces) {
            (Message::Hello { role, nonce }, None) if role == self.role.other() => {
                Ok(self.greet(nonce))
            }
            (Message::Hello { .. }, None) => {
                Err(Cause::garbage("both ends connect, or both listen"))
            }
            (Message::Proof { config_sha256, mac }, Some(nonces)) => {
                self.judge(&nonces, config_sha256, &mac)
            }
            (Message::Refusal(refusal), _) => Err(refused(refusal)),
            (other, _) => Err(Cause::garbage(format!(
                "its {} came before its proof",
                other.name()
            ))),
        }
    }

    fn greet(&mut self, theirs: [u8; 32]) -> Step {
        let nonces = match self.role {
            Role::Listens => Nonces {
                listens: self.nonce,
                connects: theirs,
            },
            Role::Connects => Nonces {
                listens: theirs,
                connects: self.nonce,
            },
        };
        self.nonces = Some(nonces);
        // A listener shows its proof only to who has proved itself.
        Step::Say(match self.role {
            Role::Listens => self.hello(),
            Role::Connects => self.proof(&nonces),
        })
    }

    fn judge(
        &self,
        nonces: &Nonces,
        config_sha256: [u8; 32],
        mac: &[u8; 32],
    ) -> Result<Step, Cause> {
        if !self
            .secret
            .admits(mac, self.role.other(), nonces, &config_sha256)
        {
            return Err(Cause::WrongSecret);
        }
        let say = (self.role == Role::Listens).then(|| self.proof(nonces));
        Ok(Step::Proven { config_sha256, say })
    }

    fn proof(&self, nonces: &Nonces) -> Message {
        let mac = self.secret.proof(self.role, nonces, &self.config_sha256);
        Message::Proof {
            config_sha256: self.config_sha256,
            mac,
        }
    }
}

/// The word for a stranger who is turned away for this.
pub(super) fn refusal(cause: &Cause) -> Refusal {
    match cause {
        Cause::WrongSecret => Refusal::WrongSecret,
        Cause::OtherVersion { .. } => Refusal::OtherVersion,
        Cause::Unheard => Refusal::Unheard,
        _ => Refusal::Unexpected,
    }
}

fn refused(refusal: Refusal) -> Cause {
    match refusal {
        Refusal::WrongSecret => Cause::WrongSecret,
        Refusal::Unheard => Cause::Unheard,
        // A peer of another version says so in its header, which is read first.
        Refusal::OtherVersion => Cause::garbage(format!(
            "it does not accept version {PROTOCOL_VERSION} from itself"
        )),
        Refusal::Unexpected => Cause::garbage("it did not understand our handshake"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; 32] = [3; 32];

    fn ends(listens: &Secret, connects: &Secret) -> (Result<Step, Cause>, Result<Step, Cause>) {
        let mut listener = Handshake::new(Role::Listens, listens, OURS, [1; 32]);
        let mut connector = Handshake::new(Role::Connects, connects, OURS, [2; 32]);
        let Ok(Step::Say(hello)) = listener.hear(connector.hello()) else {
            panic!("no hello")
        };
        let Ok(Step::Say(proof)) = connector.hear(hello) else {
            panic!("no proof")
        };
        // A listener that does not look, to see what its own proof is worth.
        let nonces = listener.nonces.expect("greeted");
        let unasked = listener.proof(&nonces);
        (listener.hear(proof), connector.hear(unasked))
    }

    #[test]
    fn two_ends_with_one_secret_prove_themselves() {
        let secret = Secret::from_bytes([7; 32]);
        let (listener, connector) = ends(&secret, &secret);
        assert!(matches!(
            listener,
            Ok(Step::Proven {
                config_sha256: OURS,
                say: Some(Message::Proof { .. })
            })
        ));
        assert!(matches!(
            connector,
            Ok(Step::Proven {
                config_sha256: OURS,
                say: None
            })
        ));
    }

    #[test]
    fn either_end_tells_that_the_other_does_not_know_the_secret() {
        let (listener, connector) =
            ends(&Secret::from_bytes([7; 32]), &Secret::from_bytes([8; 32]));
        assert!(matches!(listener, Err(Cause::WrongSecret)));
        assert!(matches!(connector, Err(Cause::WrongSecret)));
    }

    #[test]
    fn a_recorded_handshake_is_worth_nothing_against_a_fresh_nonce() {
        let secret = Secret::from_bytes([7; 32]);
        let mut connector = Handshake::new(Role::Connects, &secret, OURS, [2; 32]);
        let recorded_hello = connector.hello();
        let Ok(Step::Say(recorded_proof)) = connector.hear(Message::Hello {
            role: Role::Listens,
            nonce: [1; 32],
        }) else {
            panic!("no proof")
        };
        let mut listener = Handshake::new(Role::Listens, &secret, OURS, [9; 32]);
        assert!(listener.hear(recorded_hello).is_ok());
        assert!(matches!(
            listener.hear(recorded_proof),
            Err(Cause::WrongSecret)
        ));
    }

    #[test]
    fn our_own_words_sent_back_to_us_prove_nothing() {
        let secret = Secret::from_bytes([7; 32]);
        let mut connector = Handshake::new(Role::Connects, &secret, OURS, [2; 32]);
        assert!(matches!(
            connector.hear(connector.hello()),
            Err(Cause::Garbage { .. })
        ));
        // The nonce reflected under the listener's name, then our proof.
        let Ok(Step::Say(proof)) = connector.hear(Message::Hello {
            role: Role::Listens,
            nonce: [2; 32],
        }) else {
            panic!("no proof")
        };
        assert!(matches!(connector.hear(proof), Err(Cause::WrongSecret)));
    }

    #[test]
    fn nothing_but_the_next_step_is_heard() {
        let secret = Secret::from_bytes([7; 32]);
        for message in [
            Message::Ready,
            Message::Bye,
            Message::Proof {
                config_sha256: OURS,
                mac: [0; 32],
            },
        ] {
            let mut listener = Handshake::new(Role::Listens, &secret, OURS, [1; 32]);
            assert!(matches!(listener.hear(message), Err(Cause::Garbage { .. })));
        }
        let mut listener = Handshake::new(Role::Listens, &secret, OURS, [1; 32]);
        let hello = Message::Hello {
            role: Role::Connects,
            nonce: [2; 32],
        };
        assert!(listener.hear(hello.clone()).is_ok());
        assert!(
            matches!(listener.hear(hello), Err(Cause::Garbage { .. })),
            "a second hello"
        );
    }
}
