//! The manual page and the completions, made from the command line's own definition.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use crate::{
    args::{Cli, RUN_LONG},
    exit::{self, Code, Failure},
    out,
};

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tenure", &mut script);
    out::answer(&String::from_utf8_lossy(&script));
    Ok(exit::OK)
}

/// The page of `tenure`, verbs included, or that of one verb.
pub(crate) fn page(verb: Option<&str>) -> Result<Code, Failure> {
    let mut root = Cli::command();
    root.build();
    let mut page = Vec::new();
    let written = match verb {
        None => whole(&root, &mut page),
        Some(name) => {
            let verb = root.find_subcommand(name).filter(|verb| !verb.is_hide_set()).ok_or_else(|| {
                Failure::usage(format!("there is no verb `{}`; see: tenure --help", name.escape_debug()))
            })?;
            let title = format!("tenure-{}", verb.get_name());
            Man::new(verb.clone().display_name(title.clone())).title(title).render(&mut page)
        }
    };
    written.map_err(|err| Failure::internal("cannot write the manual", err))?;
    out::answer(&String::from_utf8_lossy(&page));
    Ok(exit::OK)
}

fn whole(root: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(root.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    for verb in root.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let mut head = Roff::default();
        head.control("SH", [format!("TENURE {}", verb.get_name().to_uppercase()).as_str()]);
        let about = verb.get_long_about().or_else(|| verb.get_about());
        head.text([roman(about.map(ToString::to_string).unwrap_or_default())]);
        head.control("PP", []);
        let usage = verb.clone().render_usage().to_string();
        head.text([bold(usage.trim_start_matches("Usage: "))]);
        head.to_writer(page)?;
        if verb.get_name() != "help" && verb.get_arguments().next().is_some() {
            options(verb, page)?;
        }
    }
    // The sections of `run --help`, each under a head of its own.
    for section in RUN_LONG.split("\n\n") {
        let (head, body) = section.split_once(":\n").unwrap_or(("Notes", section));
        let mut roff = Roff::default();
        roff.control("SH", [head.to_uppercase().as_str()]);
        roff.control("nf", []);
        for line in body.lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
        roff.to_writer(page)?;
    }
    Ok(())
}

/// The options of a verb, one level below its own head. The engine's are the same for all and said once.
fn options(verb: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let mut section = Vec::new();
    Man::new(verb.clone()).render_options_section(&mut section)?;
    let text =
        String::from_utf8_lossy(&section).replace(".SH OPTIONS", ".SS Options").replace(".SH ", ".SS ");
    page.extend_from_slice(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_page_has_every_verb_and_every_exit_code() {
        let mut root = Cli::command();
        root.build();
        let mut page = Vec::new();
        whole(&root, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for verb in ["RUN", "LS", "INSPECT", "BREAK", "WAIT", "DOCTOR", "COMPLETIONS", "MAN"] {
            assert!(page.contains(&format!("TENURE {verb}")), "{verb}");
        }
        for code in ["64", "69", "70", "75", "76", "77", "78", "124", "126", "127"] {
            assert!(page.contains(&format!("{code} ")), "{code}");
        }
        assert!(page.contains("EXIT CODES") && page.contains("ENVIRONMENT OF THE JOB"));
    }
}
