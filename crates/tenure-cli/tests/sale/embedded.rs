//! Sales that need no server.

use serde_json::Value;

use crate::bed::{sale, sold_out};

#[test]
fn every_lane_does_what_it_is_known_for_and_the_receipts_say_so() {
    let sale = sale(&["--json"]).exits(0);
    let lanes = sale.lanes();
    assert_eq!(lanes.len(), 14);
    for lane in &lanes {
        assert_eq!(lane["verdict"]["as"], "expected", "{lane}");
        let count = |name: &str| lane[name].as_u64().unwrap();
        match lane["expected"].as_str().unwrap() {
            "oversells" => assert!(count("sold") > count("stock"), "{lane}"),
            "stuck" => assert!(count("sold") < count("stock") && lane["stuck"] == true, "{lane}"),
            _ => sold_out(lane, 100),
        }
    }
    let lane = |name: &str| lanes.iter().find(|lane| lane["strategy"] == name).unwrap();
    assert!(lane("fenced")["refused"].as_u64() > Some(0), "the late writes were refused: {}", lane("fenced"));
    assert_eq!(lane("fenced")["faults"].as_array().unwrap().len(), 3, "two were stopped, one was killed");
    assert!(lane("admission")["peak"].as_u64() > Some(1), "{}", lane("admission"));
    // While it ran, somebody who watched saw the stock fall below zero.
    let ticks = sale.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let below = ticks.filter(|line| line["event"] == "tick" && line["left"].as_i64() < Some(0));
    assert!(below.count() > 0);
}

#[test]
fn buyers_come_by_http_as_well_and_a_host_that_dies_loses_nobody() {
    let args =
        ["--json", "--http", "--strategies", "no-lock,fenced,conditional,one-each", "--faults", "kill"];
    let lanes = sale(&args).exits(0).lanes();
    assert!(lanes[0]["oversold"].as_u64() > Some(0), "{}", lanes[0]);
    for lane in &lanes[1..] {
        sold_out(lane, 100);
        assert_eq!(lane["faults"].as_array().unwrap().len(), 1, "{lane}");
    }
}

#[test]
fn right_ways_are_right_under_every_fault_that_they_bear() {
    let args = ["--json", "--strategies", "safe", "--faults", "stall,kill,skew", "--seed", "7"];
    for lane in sale(&args).exits(0).lanes() {
        // Who dies between the counter and the receipt takes its numbers along.
        if lane["strategy"] != "counter" {
            sold_out(&lane, 100);
        }
    }
}

#[test]
fn plain_lines_and_a_table_for_those_without_a_terminal() {
    let sale = sale(&["--strategies", "lease,conditional", "--rate", "2000"]).exits(0);
    let lines: Vec<&str> = sale.out.lines().collect();
    assert!(lines[0].starts_with("100 consoles, 2000 buyers, 4 hosts"), "{lines:?}");
    assert!(lines[2].contains("paid for nothing"), "{lines:?}");
    assert!(lines[3].contains("for a single counter you need no lock"), "{lines:?}");
    assert!(sale.out.contains("way             sold  oversold"), "{}", sale.out);
    assert!(!sale.out.contains('\x1b'), "no colours where nobody sees them");
}
