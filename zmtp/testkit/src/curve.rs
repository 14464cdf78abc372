//! A CURVE peer by hand, on RustCrypto's cipher and nothing of ours: what it says can be made wrong at any place.

use crypto_box::aead::AeadInPlace;
use crypto_box::{PublicKey, SalsaBox, SecretKey};

use crate::{frame, hex, property};

/// The client's long-term secret key.
pub const CLIENT: [u8; 32] = [0xc1; 32];
/// The server's long-term secret key.
pub const SERVER: [u8; 32] = [0x51; 32];
const CLIENT_TRANSIENT: [u8; 32] = [0xc2; 32];
const SERVER_TRANSIENT: [u8; 32] = [0x52; 32];

/// A secret key of these bytes.
pub fn secret(bytes: [u8; 32]) -> SecretKey {
    SecretKey::from(bytes)
}

/// The public key to a secret one.
pub fn public(bytes: [u8; 32]) -> [u8; 32] {
    *secret(bytes).public_key().as_bytes()
}

/// The pair as the crate under test has it.
pub fn pair(bytes: [u8; 32]) -> zmtp::KeyPair {
    zmtp::KeyPair::from_secret(bytes.into())
}

fn nonce(prefix: &[u8], rest: &[u8]) -> [u8; 24] {
    [prefix, rest].concat().try_into().unwrap()
}

/// A box as it travels.
pub fn seal(to: [u8; 32], from: [u8; 32], nonce: [u8; 24], data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    let key = SalsaBox::new(&PublicKey::from(to), &secret(from));
    let tag = key.encrypt_in_place_detached(&nonce.into(), b"", &mut data).unwrap();
    [&tag[..], &data].concat()
}

/// What is in a box, which has to open.
pub fn open(from: [u8; 32], to: [u8; 32], nonce: [u8; 24], sealed: &[u8]) -> Vec<u8> {
    let (tag, data) = sealed.split_at(16);
    let mut data = data.to_vec();
    let key = SalsaBox::new(&PublicKey::from(from), &secret(to));
    key.decrypt_in_place_detached(&nonce.into(), b"", &mut data, tag.into()).expect("the box opens");
    data
}

/// The greeting of a CURVE peer as libzmq writes it.
pub fn greeting() -> Vec<u8> {
    let mut bytes = hex("ff0000000000000001 7f 03 01 4355525645");
    bytes.resize(64, 0);
    bytes
}

/// The properties of a peer without a name.
pub fn metadata(socket_type: &str) -> Vec<u8> {
    [property("Socket-Type", socket_type.as_bytes()), property("Identity", b"")].concat()
}

/// What an INITIATE says; the true thing unless changed.
pub struct Initiate {
    /// The cookie of WELCOME.
    pub cookie: Vec<u8>,
    /// The number in the nonce.
    pub counter: u64,
    /// The client's long-term public key.
    pub client: [u8; 32],
    /// Who vouches.
    pub vouch_secret: [u8; 32],
    /// For which connection: the transient public key of the client.
    pub vouched_transient: [u8; 32],
    /// And for which server.
    pub vouched_server: [u8; 32],
    /// The client's properties.
    pub metadata: Vec<u8>,
}

/// A client; its next counter is its own business.
pub struct Client {
    /// The server's long-term public key.
    pub server: [u8; 32],
    /// The server's transient public key, once WELCOME told it.
    pub server_transient: [u8; 32],
    /// Our transient secret key.
    pub transient: [u8; 32],
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// One that knows [`SERVER`].
    pub fn new() -> Self {
        Self { server: public(SERVER), server_transient: [0; 32], transient: CLIENT_TRANSIENT }
    }

    /// A HELLO's body.
    pub fn hello(&self) -> Vec<u8> {
        self.hello_of([1, 0], &[0; 72], public(self.transient), &[0; 64])
    }

    /// A HELLO with these parts.
    pub fn hello_of(&self, version: [u8; 2], padding: &[u8], transient: [u8; 32], proof: &[u8]) -> Vec<u8> {
        let counter = 1u64.to_be_bytes();
        let sealed = seal(self.server, self.transient, nonce(b"CurveZMQHELLO---", &counter), proof);
        [b"\x05HELLO", &version[..], padding, &transient, &counter, &sealed].concat()
    }

    /// Takes a WELCOME's body; gives what the true INITIATE says.
    pub fn on_welcome(&mut self, body: &[u8]) -> Initiate {
        assert_eq!((&body[..8], body.len()), (&b"\x07WELCOME"[..], 168));
        let plain = open(self.server, self.transient, nonce(b"WELCOME-", &body[8..24]), &body[24..]);
        self.server_transient = plain[..32].try_into().unwrap();
        Initiate {
            cookie: plain[32..].to_vec(),
            counter: 2,
            client: public(CLIENT),
            vouch_secret: CLIENT,
            vouched_transient: public(self.transient),
            vouched_server: self.server,
            metadata: metadata("DEALER"),
        }
    }

    /// An INITIATE's body.
    pub fn initiate(&self, says: &Initiate) -> Vec<u8> {
        let both = [says.vouched_transient, says.vouched_server].concat();
        let random = [7; 16];
        let vouch = seal(self.server_transient, says.vouch_secret, nonce(b"VOUCH---", &random), &both);
        let plain = [&says.client[..], &random, &vouch, &says.metadata].concat();
        let counter = says.counter.to_be_bytes();
        let sealed = seal(self.server_transient, self.transient, nonce(b"CurveZMQINITIATE", &counter), &plain);
        [&b"\x08INITIATE"[..], &says.cookie, &counter, &sealed].concat()
    }

    /// The properties in a READY's body.
    pub fn on_ready(&self, body: &[u8]) -> Vec<u8> {
        assert_eq!(&body[..6], b"\x05READY");
        open(self.server_transient, self.transient, nonce(b"CurveZMQREADY---", &body[6..14]), &body[14..])
    }

    /// A MESSAGE's body.
    pub fn message(&self, counter: u64, flags: u8, payload: &[u8]) -> Vec<u8> {
        let counter = counter.to_be_bytes();
        let nonce = nonce(b"CurveZMQMESSAGEC", &counter);
        let sealed = seal(self.server_transient, self.transient, nonce, &[&[flags], payload].concat());
        [&b"\x07MESSAGE"[..], &counter, &sealed].concat()
    }

    /// Counter, flags and payload of a MESSAGE's body.
    pub fn opened(&self, body: &[u8]) -> (u64, u8, Vec<u8>) {
        assert_eq!(&body[..8], b"\x07MESSAGE");
        let nonce = nonce(b"CurveZMQMESSAGES", &body[8..16]);
        let plain = open(self.server_transient, self.transient, nonce, &body[16..]);
        (u64::from_be_bytes(body[8..16].try_into().unwrap()), plain[0], plain[1..].to_vec())
    }
}

/// A server.
pub struct Server {
    /// The client's transient public key.
    pub client_transient: [u8; 32],
}

impl Server {
    /// Takes a HELLO's body.
    pub fn on_hello(body: &[u8]) -> Self {
        assert_eq!((&body[..8], body.len()), (&b"\x05HELLO\x01\x00"[..], 200));
        let client_transient = body[80..112].try_into().unwrap();
        let plain = open(client_transient, SERVER, nonce(b"CurveZMQHELLO---", &body[112..120]), &body[120..]);
        assert_eq!(plain, [0; 64]);
        Self { client_transient }
    }

    /// A WELCOME's body.
    pub fn welcome(&self) -> Vec<u8> {
        self.welcome_of(public(SERVER_TRANSIENT))
    }

    /// A WELCOME with this transient public key of the server.
    pub fn welcome_of(&self, transient: [u8; 32]) -> Vec<u8> {
        let random = [9; 16];
        let plain = [&transient[..], &[0xc0; 96]].concat();
        let sealed = seal(self.client_transient, SERVER, nonce(b"WELCOME-", &random), &plain);
        [&b"\x07WELCOME"[..], &random, &sealed].concat()
    }

    /// The client's long-term key and properties in an INITIATE's body, whose vouch is checked.
    pub fn on_initiate(&self, body: &[u8]) -> ([u8; 32], Vec<u8>) {
        assert_eq!(body[..9], b"\x08INITIATE"[..]);
        assert_eq!(body[9..105], [0xc0; 96]);
        let nonce_ = nonce(b"CurveZMQINITIATE", &body[105..113]);
        let plain = open(self.client_transient, SERVER_TRANSIENT, nonce_, &body[113..]);
        let client: [u8; 32] = plain[..32].try_into().unwrap();
        let vouch = open(client, SERVER_TRANSIENT, nonce(b"VOUCH---", &plain[32..48]), &plain[48..128]);
        assert_eq!(vouch, [self.client_transient, public(SERVER)].concat());
        (client, plain[128..].to_vec())
    }

    /// A READY's body.
    pub fn ready(&self, counter: u64, metadata: &[u8]) -> Vec<u8> {
        let counter = counter.to_be_bytes();
        let nonce = nonce(b"CurveZMQREADY---", &counter);
        let sealed = seal(self.client_transient, SERVER_TRANSIENT, nonce, metadata);
        [&b"\x05READY"[..], &counter, &sealed].concat()
    }

    /// A MESSAGE's body.
    pub fn message(&self, counter: u64, flags: u8, payload: &[u8]) -> Vec<u8> {
        let counter = counter.to_be_bytes();
        let nonce = nonce(b"CurveZMQMESSAGES", &counter);
        let sealed = seal(self.client_transient, SERVER_TRANSIENT, nonce, &[&[flags], payload].concat());
        [&b"\x07MESSAGE"[..], &counter, &sealed].concat()
    }
}

/// The bodies of the frames in what was written, with their flags.
pub fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let [flags, rest @ ..] = bytes {
        let (len, rest) = if flags & 2 == 0 {
            (usize::from(rest[0]), &rest[1..])
        } else {
            (u64::from_be_bytes(rest[..8].try_into().unwrap()) as usize, &rest[8..])
        };
        found.push((*flags, rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    found
}

/// A handshake command as a frame.
pub fn command(body: &[u8]) -> Vec<u8> {
    frame(4, body)
}
