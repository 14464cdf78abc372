//! The handshake byte for byte, against vectors made with libsodium by code that talks to libzmq; and the cipher against
//! RustCrypto's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use crypto_box::aead::AeadInPlace;
use dryoc::classic::crypto_hash::crypto_hash_sha256;
use proptest::prelude::*;

use super::keys::{KeyPair, PublicKey, SecretKey, SharedKey, WeakKey};
use super::sealed::{Opener, Role, Sealer};
use super::{open, seal};
use crate::auth::AllowAny;
use crate::connection::{Connection, ConnectionConfig, Event};
use crate::mechanism::{Entropy, EntropyError, SecurityFault};
use crate::{Message, Security, SocketType};

/// Fixed bytes instead of random ones, each of its own value.
#[derive(Debug)]
struct Fixed(Mutex<VecDeque<u8>>);

impl Fixed {
    fn new(values: impl IntoIterator<Item = u8>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(values.into_iter().collect())))
    }
}

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        bytes.fill(self.0.lock().unwrap().pop_front().ok_or(EntropyError)?);
        Ok(())
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    let mut digest = [0; 32];
    crypto_hash_sha256(&mut digest, bytes);
    digest.to_vec()
}

fn key(text: &str) -> [u8; 32] {
    hex(text).try_into().unwrap()
}

/// The long-term test keys of libzmq's documentation.
fn client_pair() -> KeyPair {
    KeyPair::from_secret(key("7bb864b489afa3671fbe69101f94b38972f24816dfb01b51656b3fec8dfd0888").into())
}

fn server_pair() -> KeyPair {
    KeyPair::from_secret("JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6".parse().unwrap())
}

#[test]
fn curve_08_keys_as_text() {
    let client = client_pair();
    assert_eq!(client.public().as_bytes()[..], hex("bb88471d65e2659b30c55a5321cebb5aab2b70a398645c26dca2b2fcb43fc518"));
    assert_eq!(client.public().to_string(), "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID");
    assert_eq!(&**client.secret().to_z85(), "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs");
    assert_eq!("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID".parse(), Ok(client.public()));
    let server = server_pair();
    assert_eq!(server.public().as_bytes()[..], hex("54fcba24e93249969316fb617c872bb0c1d1ff14800427c594cbfacf1bc2d652"));
    assert_eq!(server.secret().as_bytes()[..], hex("8e0bdd697628b91d8f245587ee95c5b04d48963f79259877b49cd9063aead3b7"));
    for text in ["", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7rq:rM"] {
        assert!(text.parse::<PublicKey>().is_err(), "{text}");
        assert!(text.parse::<SecretKey>().is_err(), "{text}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let pair = client_pair();
    let shared = SharedKey::agree(pair.secret(), &server_pair().public()).unwrap();
    let shown = format!("{pair:?} {:?} {shared:?} {:?}", pair.secret(), Sealer::new(shared.clone(), Role::Client, 1));
    for bytes in [pair.secret().as_bytes(), shared.as_bytes()] {
        assert!(!shown.contains(&format!("{}, {}", bytes[0], bytes[1])), "{shown}");
        assert!(!shown.contains(&crate::wire::z85::encode(bytes).unwrap()), "{shown}");
    }
    assert!(shown.contains(&pair.public().to_string()));
}

/// What a connection writes.
fn written(connection: &mut Connection) -> Vec<u8> {
    let transmit = connection.transmit();
    transmit.copy_to_bytes(transmit.remaining()).to_vec()
}

fn give(connection: &mut Connection, bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    connection.receive(&mut BytesMut::from(bytes), usize::MAX, Instant::now(), &mut events).unwrap();
    events
}

fn new(socket_type: SocketType, security: Security) -> Connection {
    let config = ConnectionConfig { security, ..ConnectionConfig::new(socket_type) };
    Connection::new(Arc::new(config), Instant::now())
}

#[test]
fn curve_03_09_the_deterministic_handshake() {
    let shared = |secret: u8, public: &str| {
        SharedKey::agree(&SecretKey::from([secret; 32]), &PublicKey::from(key(public))).unwrap()
    };
    let [c, s] = [0x11, 0x22].map(|byte| KeyPair::from_secret([byte; 32].into()).public().as_bytes().to_vec());
    assert_eq!(c, hex("7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13"));
    assert_eq!(s, hex("0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20"));
    let k = hex("8abe7c8ae6800b76d4f5986b04b77f6e9b4f332403c90df02428336e8bd9b525");
    assert_eq!(shared(0x11, "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20").as_bytes()[..], k);
    assert_eq!(shared(0x22, "7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13").as_bytes()[..], k);

    let security = Security::curve_client_from(server_pair().public(), client_pair(), Fixed::new([0x11, 0x66]));
    let mut client = new(SocketType::Dealer, security);
    let security = Security::curve_server_from(server_pair(), AllowAny, Fixed::new([0x22, 0x33, 0x44, 0x55]));
    let mut server = new(SocketType::Router, security);

    let (greetings, mut expected) = ([written(&mut client), written(&mut server)], hex("ff0000000000000000 7f 03 01"));
    expected.extend_from_slice(b"CURVE");
    expected.resize(64, 0);
    assert_eq!(greetings[0], expected);
    expected[32] = 1;
    assert_eq!(greetings[1], expected, "a server says so");
    assert_eq!(give(&mut client, &greetings[1]), []);
    assert_eq!(give(&mut server, &greetings[0]), []);
    assert_eq!(written(&mut server), []);

    let hello = written(&mut client);
    assert_eq!((&hello[..2], hello.len()), (&hex("04c8")[..], 202));
    assert_eq!(
        hello[122..],
        hex("4421bee1b6bcfdff97d7ff0fbb19b8498d7c639897ae554a2bc26a32f47752b33a6969a446f85cb346cd5a19216cc199
             1c7b926bbecbd5cb4fd2793c0c010324677919f0c2caf410afaf707e7ecab73a")
    );
    assert_eq!(sha256(&hello[2..]), hex("01d97ee53776a007699726fb19bcdcf69068acd376580004244b791570a099b1"));
    assert_eq!(give(&mut server, &hello), []);

    let welcome = written(&mut server);
    assert_eq!((&welcome[..2], welcome.len()), (&hex("04a8")[..], 170));
    assert_eq!(welcome[26..42], hex("7db42da2060c4956c484094568fe86ad"));
    assert_eq!(sha256(&welcome[2..]), hex("dc53df43153216efb924047537e19807ae698bdba2011e24801d9951dc52672e"));
    assert_eq!(give(&mut client, &welcome), []);

    let initiate = written(&mut client);
    assert_eq!((&initiate[..9], initiate.len()), (&hex("06 0000000000000124")[..], 301));
    assert_eq!(
        initiate[9 + 9 + 16..][..80],
        hex("c48773e7a224b8b2271bb6c674e58e01d9d40eaa2e6cbbded157225c7925492579144eb6744cd21d1827de2bb93114c0
             b3a4548bd1cb25089fdaf85f6cbc7b2ebc655eb365534c773616cf463b16e784")
    );
    assert_eq!(initiate[9 + 113..][..16], hex("2437c488058d5911888870b7f613ea4a"));
    assert_eq!(sha256(&initiate[9..]), hex("81d4bb6b36303ac87dec20a4b20aab340b8340104278b122e5e3ba8a58fadc43"));
    let events = give(&mut server, &initiate);
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.socket_type == Some(SocketType::Dealer)));

    let ready = written(&mut server);
    let body =
        "055245414459000000000000000120585e2fd504d3016b4f9f0cb53a170c054044f2e2b20ab4e9e1d3084fdac0c485ac4d1a117132
                05e20bd15405e874cb36de63";
    assert_eq!(ready, [hex("0441"), hex(body)].concat());
    let events = give(&mut client, &ready);
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.socket_type == Some(SocketType::Router)));

    // No COMMAND bit outside: libzmq would throw it away.
    client.send(&Message::from("hello"));
    let sealed = written(&mut client);
    let body = "074d4553534147450000000000000003fe70f612f33abd2c16aa5a5a1259e0a9b2b61f68e4f8";
    assert_eq!(sealed, [hex("0026"), hex(body)].concat());
    assert_eq!(give(&mut server, &sealed), [Event::Message(Message::from("hello"))]);
    server.send(&Message::from("world"));
    let sealed = written(&mut server);
    let body = "074d4553534147450000000000000002aae0bfeaf25d7c4626817ad6621d4e3d2d930f815add";
    assert_eq!(sealed, [hex("0026"), hex(body)].concat());
    assert_eq!(give(&mut client, &sealed), [Event::Message(Message::from("world"))]);
}

/// The points of low order, as everybody lists them: the shared key would be the same whatever our secret is.
#[test]
fn weak_keys_are_refused() {
    for point in [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ] {
        let weak = PublicKey::from(key(point));
        assert_eq!(SharedKey::agree(client_pair().secret(), &weak).err(), Some(WeakKey), "{point}");
    }
}

#[test]
fn without_randomness_there_is_no_key() {
    let fault = |result: Result<(), crate::connection::ConnectionError>| format!("{}", result.unwrap_err());
    let security = Security::curve_client_from(server_pair().public(), client_pair(), Fixed::new([]));
    let mut client = new(SocketType::Dealer, security);
    let mut input = BytesMut::from(&crate::wire::greeting::Greeting::encode(super::super::MechanismName::CURVE)[..]);
    let result = client.receive(&mut input, usize::MAX, Instant::now(), &mut Vec::new());
    assert_eq!(fault(result), "HELLO: the system has no randomness to give");
}

fn channel(last: u64) -> (Sealer, Opener) {
    let key = SharedKey::agree(client_pair().secret(), &server_pair().public()).unwrap();
    (Sealer::new(key.clone(), Role::Client, last), Opener::new(key, Role::Client, last))
}

#[test]
fn curve_02_counters_end_before_they_wrap() {
    let (mut sealer, mut opener) = channel(u64::MAX - 2);
    let mut out = Vec::new();
    sealer.seal_message(&mut &b"\x00\x01a"[..], &mut out);
    assert_eq!(opener.open(&mut out.clone()[2..]), Ok(0));
    assert!(sealer.is_exhausted());
    let before = out.len();
    sealer.seal_message(&mut &b"\x00\x01b"[..], &mut out);
    assert_eq!(out.len(), before, "nothing is sealed with a counter that was used, nor in clear");
}

/// A forged counter must not make the real peer's messages replays.
#[test]
fn a_counter_counts_only_with_a_box_that_opens() {
    let (mut sealer, mut opener) = channel(2);
    let mut real = Vec::new();
    sealer.seal_message(&mut &b"\x00\x01a"[..], &mut real);
    let mut forged = real.clone();
    forged[10] = 0xff;
    assert_eq!(opener.open(&mut forged[2..]), Err(SecurityFault::Box));
    assert_eq!(opener.open(&mut real.clone()[2..]), Ok(0));
    assert_eq!(opener.open(&mut real[2..]), Err(SecurityFault::Counter));
}

#[test]
fn curve_02_gaps_between_counters_are_fine() {
    let (_, mut opener) = channel(2);
    let (mut sealer, _) = channel(999);
    let mut out = Vec::new();
    sealer.seal_message(&mut &b"\x01\x01a\x00\x00"[..], &mut out);
    let (first, second) = out.split_at_mut(2 + 34);
    assert_eq!(opener.open(&mut first[2..]), Ok(1));
    assert_eq!(opener.open(&mut second[2..]), Ok(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The fast cipher computes what the audited one computes, at every length and with every key.
    #[test]
    fn the_cipher_is_that_of_crypto_box(
        secrets in any::<[[u8; 32]; 2]>(),
        nonce in any::<[u8; 24]>(),
        data in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..600),
            (600..5_000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        ],
        flip in any::<(usize, u8)>(),
    ) {
        let [ours, theirs] = secrets.map(|secret| KeyPair::from_secret(secret.into()));
        let public = crypto_box::SecretKey::from(secrets[1]).public_key();
        prop_assert_eq!(*public.as_bytes(), *theirs.public().as_bytes());
        let reference = crypto_box::SalsaBox::new(&public, &crypto_box::SecretKey::from(secrets[0]));
        let key = SharedKey::agree(ours.secret(), &theirs.public()).unwrap();

        let mut sealed = data.clone();
        let tag = seal(&key, &nonce, &mut sealed);
        let mut expected = data.clone();
        let expected_tag = reference.encrypt_in_place_detached(&nonce.into(), b"", &mut expected).unwrap();
        prop_assert_eq!(&tag[..], &expected_tag[..]);
        prop_assert_eq!(&sealed, &expected);

        let mut changed = [&tag[..], &sealed].concat();
        let at = flip.0 % changed.len();
        changed[at] ^= flip.1.max(1);
        let (bad_tag, bad) = changed.split_first_chunk_mut().unwrap();
        prop_assert_eq!(open(&key, &nonce, bad_tag, bad), Err(SecurityFault::Box));
        prop_assert_eq!(open(&key, &nonce, &tag, &mut sealed), Ok(()));
        prop_assert_eq!(sealed, data);
    }
}
