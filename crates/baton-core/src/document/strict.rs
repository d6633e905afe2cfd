//! JSON that a model or a program of the project says, as a plain value: no key twice, at any depth. For
//! texts that no problem with a place has to be made of.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value in which no object has a key twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Values).map(Strict)
    }
}

fn twice<E: Error>(key: &str) -> E {
    E::custom(format!("the key `{}` is there twice", crate::text::shown(key, 40)))
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(twice(&key));
            }
            let Strict(value) = entries.next_value()?;
            all.insert(key, value);
        }
        Ok(all.into())
    }
}

/// The same check without the value, for long texts.
pub(crate) struct NoKeyTwice;

impl<'de> Deserialize<'de> for NoKeyTwice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NoKeyTwice, D::Error> {
        deserializer.deserialize_any(NoKeyTwice)
    }
}

impl<'de> Visitor<'de> for NoKeyTwice {
    type Value = NoKeyTwice;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<NoKeyTwice, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<NoKeyTwice, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<NoKeyTwice, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<NoKeyTwice, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<NoKeyTwice, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<NoKeyTwice, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NoKeyTwice, A::Error> {
        while items.next_element::<NoKeyTwice>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<NoKeyTwice, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            let NoKeyTwice = entries.next_value()?;
            if seen.contains(&key) {
                return Err(twice(&key));
            }
            seen.insert(key);
        }
        Ok(self)
    }
}
