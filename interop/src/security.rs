//! Security options of `zmtp-peer`, as `name=value` pairs: user names and passwords in hex, keys as Z85.

use zmtp::auth::{AllowAny, CurveKeys, Passwords};
use zmtp::{KeyPair, PublicKey, Security};

/// The options' names.
pub const OPTIONS: [&str; 6] =
    ["plain_user", "plain_password", "plain_accept", "curve_secret", "curve_server_key", "curve_accept"];

/// The mechanism that the options ask for, if any does.
///
/// * `plain_user`, `plain_password`: PLAIN client.
/// * `plain_accept=USER:PASSWORD`: PLAIN server.
/// * `curve_secret`, `curve_server_key`: CURVE client.
/// * `curve_secret`, `curve_accept=any` or `curve_accept=KEY,KEY`: CURVE server.
///
/// # Errors
/// What is wrong with a value, in words.
pub fn parse(options: &[(&str, &str)]) -> Result<Option<Security>, String> {
    let value = |name: &str| options.iter().find(|(option, _)| *option == name).map(|(_, value)| *value);
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if let (Some(user), Some(password)) = (value("plain_user"), value("plain_password")) {
        return Security::plain_client(unhex(user)?, unhex(password)?).map(Some).map_err(|error| text(&error));
    }
    if let Some((user, password)) = value("plain_accept").and_then(|value| value.split_once(':')) {
        let passwords = Passwords::new();
        passwords.insert(unhex(user)?, unhex(password)?).map_err(|error| text(&error))?;
        return Ok(Some(Security::plain_server(passwords)));
    }
    let Some(secret) = value("curve_secret") else { return Ok(None) };
    let pair = KeyPair::from_secret(secret.parse().map_err(|error| text(&error))?);
    if let Some(server) = value("curve_server_key") {
        return Ok(Some(Security::curve_client(server.parse().map_err(|error| text(&error))?, pair)));
    }
    match value("curve_accept") {
        None => Err("neither curve_server_key nor curve_accept".to_owned()),
        Some("any") => Ok(Some(Security::curve_server(pair, AllowAny))),
        Some(list) => {
            let keys = CurveKeys::new();
            for key in list.split(',') {
                let key: PublicKey = key.parse().map_err(|error| text(&error))?;
                keys.insert(key, key.to_string());
            }
            Ok(Some(Security::curve_server(pair, keys)))
        }
    }
}

fn unhex(word: &str) -> Result<Vec<u8>, String> {
    let digit = |at: usize| word.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..word.len()).step_by(2).map(digit).collect::<Option<_>>().ok_or_else(|| format!("not hex: {word}"))
}
