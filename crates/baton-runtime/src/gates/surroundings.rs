//! The confinement of a gate and the variables that it sees. A gate runs what agents wrote, so it may
//! do what their commands may do, and write a cache of its own so that it is as fast as the user's.

use std::collections::BTreeMap;
use std::ffi::OsString;

use baton_core::policy::{Allowed, Gate};

use super::Place;
use crate::caches::{self, Writer};
use crate::executor::{USUAL, open};
use crate::load;
use crate::sandbox::{self, Closed, Confine, Sight, Temporary};

/// Variables that only a gate with the network needs. The address of a proxy may hold a password.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// See the module.
pub(super) struct Surroundings {
    pub(super) confine: Confine,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// Its `TMPDIR`.
    _temporary: Option<Temporary>,
}

impl Surroundings {
    pub(super) fn of(gate: &Gate, place: &Place<'_>) -> Result<Surroundings, String> {
        let names: Vec<String> = USUAL.iter().map(|name| (*name).to_owned()).collect();
        let mut environment = place.environment.for_command(&names);
        if !place.confined || gate.allows(Allowed::Everything) {
            let (all, project) = (place.environment, place.project);
            Sight::default().add_variables(all, project, &mut environment);
            let confine = open(place.confined, place.board);
            return Ok(Surroundings { confine, environment, _temporary: None });
        }
        let cache = caches::open(Writer::Gates, place.project, place.environment)?;
        let temporary = sandbox::temporary()
            .map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let (project, board) = (place.project, place.board);
        let closed = Closed::usual(project, board, temporary.path(), place.environment)?;
        let mut closed = closed.in_view(board);
        let (config, _) =
            load::config(place.environment, None).map_err(|error| error.to_string())?;
        closed.sight.add(&config.agent.read, place.environment);
        closed.writable.push(cache.clone());
        closed.network = gate.allows(Allowed::Network);
        if gate.allows(Allowed::Home) {
            closed = closed.with_home(place.environment);
        }
        if !closed.network {
            environment.retain(|name, _| !PROXIES.iter().any(|own| name.eq_ignore_ascii_case(own)));
        }
        environment.extend(caches::variables(
            &cache,
            place.environment,
            gate.allows(Allowed::Network),
        ));
        closed.sight.add_variables(place.environment, place.project, &mut environment);
        let confine = Confine::Closed(Box::new(closed));
        Ok(Surroundings { confine, environment, _temporary: Some(temporary) })
    }
}
