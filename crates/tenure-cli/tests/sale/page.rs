//! The page, opened in a browser and looked at.

use std::{fs, process::Command};

use crate::bed::sale;

/// How far a colour may be from what the page asks for: edges are smoothed.
const NEAR: i32 = 24;

#[test]
fn the_page_opens_without_complaint_and_its_plots_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (html, shot) = (folder.path().join("sale.html"), folder.path().join("sale.png"));
    sale(&["--html", html.to_str().unwrap(), "--strategies", "no-lock,lease,fenced,conditional"]).exits(0);
    let text = fs::read_to_string(&html).unwrap();
    assert_eq!(text.matches("<svg").count(), 4);
    assert!(!text.contains("http://") && !text.contains("https://"), "it loads nothing");
    assert!(text.contains("shop.store.claim(&quot;item&quot;"), "it shows the code that ran");

    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        "--window-size=1280,1600",
        "--enable-logging=stderr",
    ]);
    browser.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    browser.arg(format!("--screenshot={}", shot.display()));
    let done = browser.arg(format!("file://{}", html.display())).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("CONSOLE"), "the page complains: {said}");

    let colours = pixels(&shot);
    let count = |wanted: [i32; 3]| {
        let near = |pixel: &&[u8; 3]| {
            pixel.iter().zip(wanted).all(|(&seen, wanted)| (i32::from(seen) - wanted).abs() <= NEAR)
        };
        colours.iter().filter(near).count()
    };
    assert!(count([0x27, 0x61, 0xb5]) > 400, "the stock, in blue");
    assert!(count([0xc5, 0x30, 0x3b]) > 400, "what was oversold, in red");
}

fn pixels(path: &std::path::Path) -> Vec<[u8; 3]> {
    let mut reader =
        png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut bytes).unwrap();
    let samples = frame.color_type.samples();
    bytes[..frame.buffer_size()].chunks_exact(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}
