//! The order of `Hello` and `Proof`, for either end, without a socket or a clock.
//!
//! Cannot continue after a refusal: the caller drops the connection. Nothing that the peer claims
//! is used before its proof is verified.
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

/// The next step after a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send this message and wait for the next one.
    Send(Message),
    /// The peer knows the secret and has a configuration with this hash. Send the message, if any.
    Proven {
        config_sha256: [u8; 32],
        send: Option<Message>,
    },
}

impl<'a> Handshake<'a> {
    /// A handshake before its first message. `nonce` must be fresh.
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

    pub(super) fn receive(&mut self, message: Message) -> Result<Step, Cause> {
        match (message, self.nonces) {
            (Message::Hello { role, nonce }, None) if role == self.role.other() => {
                Ok(self.greet(nonce))
            }
            (Message::Hello { .. }, None) => {
                Err(Cause::garbage("the peer has the same role as this end"))
            }
            (Message::Proof { config_sha256, mac }, Some(nonces)) => {
                self.judge(&nonces, config_sha256, &mac)
            }
            (Message::Refusal(refusal), _) => Err(refused(refusal)),
            (other, _) => Err(Cause::garbage(format!(
                "the peer sent {} before its proof",
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
        // A listener sends its proof only to a peer that has sent a valid one.
        Step::Send(match self.role {
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
            .verifies(mac, self.role.other(), nonces, &config_sha256)
        {
            return Err(Cause::WrongSecret);
        }
        let send = (self.role == Role::Listens).then(|| self.proof(nonces));
        Ok(Step::Proven {
            config_sha256,
            send,
        })
    }

    fn proof(&self, nonces: &Nonces) -> Message {
        let mac = self.secret.proof(self.role, nonces, &self.config_sha256);
        Message::Proof {
            config_sha256: self.config_sha256,
            mac,
        }
    }
}

/// The refusal to send to a connection that is rejected for `cause`.
pub(super) fn refusal(cause: &Cause) -> Refusal {
    match cause {
        Cause::WrongSecret => Refusal::WrongSecret,
        Cause::OtherVersion { .. } => Refusal::OtherVersion,
        Cause::Dropped => Refusal::Dropped,
        _ => Refusal::Unexpected,
    }
}

fn refused(refusal: Refusal) -> Cause {
    match refusal {
        Refusal::WrongSecret => Cause::WrongSecret,
        Refusal::Dropped => Cause::Dropped,
        // A peer of another version is recognised by its header, before any refusal.
        Refusal::OtherVersion => Cause::garbage(format!(
            "the peer refuses version {PROTOCOL_VERSION}, which is its own"
        )),
        Refusal::Unexpected => Cause::garbage("the peer did not understand the handshake"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; 32] = [3; 32];

    fn ends(listens: &Secret, connects: &Secret) -> (Result<Step, Cause>, Result<Step, Cause>) {
        let mut listener = Handshake::new(Role::Listens, listens, OURS, [1; 32]);
        let mut connector = Handshake::new(Role::Connects, connects, OURS, [2; 32]);
        let Ok(Step::Send(hello)) = listener.receive(connector.hello()) else {
            panic!("no hello")
        };
        let Ok(Step::Send(proof)) = connector.receive(hello) else {
            panic!("no proof")
        };
        // A listener that sends its proof without a valid one from the peer.
        let nonces = listener.nonces.expect("greeted");
        let unasked = listener.proof(&nonces);
        (listener.receive(proof), connector.receive(unasked))
    }

    #[test]
    fn two_ends_with_the_same_secret_authenticate() {
        let secret = Secret::of_test(7);
        let (listener, connector) = ends(&secret, &secret);
        assert!(matches!(
            listener,
            Ok(Step::Proven {
                config_sha256: OURS,
                send: Some(Message::Proof { .. })
            })
        ));
        assert!(matches!(
            connector,
            Ok(Step::Proven {
                config_sha256: OURS,
                send: None
            })
        ));
    }

    #[test]
    fn each_end_detects_that_the_other_has_another_secret() {
        let (listener, connector) = ends(&Secret::of_test(7), &Secret::of_test(8));
        assert!(matches!(listener, Err(Cause::WrongSecret)));
        assert!(matches!(connector, Err(Cause::WrongSecret)));
    }

    #[test]
    fn a_replayed_handshake_fails_against_a_fresh_nonce() {
        let secret = Secret::of_test(7);
        let mut connector = Handshake::new(Role::Connects, &secret, OURS, [2; 32]);
        let recorded_hello = connector.hello();
        let Ok(Step::Send(recorded_proof)) = connector.receive(Message::Hello {
            role: Role::Listens,
            nonce: [1; 32],
        }) else {
            panic!("no proof")
        };
        let mut listener = Handshake::new(Role::Listens, &secret, OURS, [9; 32]);
        assert!(listener.receive(recorded_hello).is_ok());
        assert!(matches!(
            listener.receive(recorded_proof),
            Err(Cause::WrongSecret)
        ));
    }

    #[test]
    fn reflected_messages_are_rejected() {
        let secret = Secret::of_test(7);
        let mut connector = Handshake::new(Role::Connects, &secret, OURS, [2; 32]);
        assert!(matches!(
            connector.receive(connector.hello()),
            Err(Cause::Garbage { .. })
        ));
        // The nonce reflected with the listener's role, then this end's own proof.
        let Ok(Step::Send(proof)) = connector.receive(Message::Hello {
            role: Role::Listens,
            nonce: [2; 32],
        }) else {
            panic!("no proof")
        };
        assert!(matches!(connector.receive(proof), Err(Cause::WrongSecret)));
    }

    #[test]
    fn messages_out_of_order_are_rejected() {
        let secret = Secret::of_test(7);
        for message in [
            Message::Ready,
            Message::Bye,
            Message::Proof {
                config_sha256: OURS,
                mac: [0; 32],
            },
        ] {
            let mut listener = Handshake::new(Role::Listens, &secret, OURS, [1; 32]);
            assert!(matches!(
                listener.receive(message),
                Err(Cause::Garbage { .. })
            ));
        }
        let mut listener = Handshake::new(Role::Listens, &secret, OURS, [1; 32]);
        let hello = Message::Hello {
            role: Role::Connects,
            nonce: [2; 32],
        };
        assert!(listener.receive(hello.clone()).is_ok());
        assert!(
            matches!(listener.receive(hello), Err(Cause::Garbage { .. })),
            "a second hello"
        );
    }
}
