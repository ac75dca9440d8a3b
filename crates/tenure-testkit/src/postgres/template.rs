use std::{fs, path::PathBuf, sync::OnceLock};

use super::{DATABASE, programs, server::ADMIN};
use crate::{
    Failure, Result,
    process::Room,
    programs::{run, unless_root},
};

/// The user of Debian's package.
pub(crate) const USER: &str = "postgres";

/// A data directory to copy: making one takes a second, copying it less than a tenth. Made once per process.
pub(super) fn template() -> Result<PathBuf> {
    static TEMPLATE: OnceLock<Result<Room>> = OnceLock::new();
    let room = TEMPLATE.get_or_init(make).as_ref().map_err(Clone::clone)?;
    Ok(room.path().join("data"))
}

fn make() -> Result<Room> {
    let room = Room::new()?;
    let sql = room.path().join("template.sql");
    // Up to version 14 everybody may create tables in `public`; the database is a copy of the one this is said in.
    fs::write(&sql, format!("REVOKE CREATE ON SCHEMA public FROM PUBLIC\nCREATE DATABASE {DATABASE}\n"))?;
    let user = unless_root(USER);
    if let Some(user) = &user {
        room.give_to(user)?;
    }
    let programs = programs().map_err(Failure::of_the_trial)?;
    let data = room.path().join("data");
    let line = format!(
        "--username={ADMIN} --auth=trust --encoding=UTF8 --locale=C --wal-segsize=1 --no-sync --no-instructions -D"
    );
    let mut args: Vec<_> = line.split(' ').map(str::to_owned).collect();
    args.push(data.display().to_string());
    run(user.as_deref(), &programs.join("initdb"), &args, None)?;
    let args = ["--single".into(), "-D".into(), data.display().to_string(), "template1".into()];
    run(user.as_deref(), &programs.join("postgres"), &args, Some(&sql))?;
    let access = format!(
        "host all {ADMIN} 127.0.0.1/32 trust\nhost replication {ADMIN} 127.0.0.1/32 trust\n\
         host all all 127.0.0.1/32 scram-sha-256\n"
    );
    fs::write(data.join("pg_hba.conf"), access)?;
    Ok(room)
}
