//! The shop by HTTP: what a host serves, and how the crowd asks.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request as HttpRequest, body::Bytes};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{
    host::Request,
    shop::Shop,
    trouble::{Result, Trouble},
    wire::Answer,
};

/// What is on sale.
pub(crate) const ITEM: &str = "console";
/// The longest answer that the crowd reads.
const MAX_BODY: usize = 64 * 1024;

#[derive(Clone, Debug)]
struct Counter {
    shop: Arc<Shop>,
    queue: mpsc::Sender<Request>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    buyer: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Told {
    answer: Answer,
}

/// Listens on a port of loopback, and says which.
pub(crate) async fn serve(shop: Arc<Shop>, queue: mpsc::Sender<Request>) -> Result<u16> {
    let cannot = |err| Trouble::internal("cannot listen", err);
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let routes = Router::new()
        .route("/items/{id}", get(look))
        .route("/items/{id}/orders", post(order))
        .with_state(Counter { shop, queue });
    // It ends with the process.
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(port)
}

/// `GET /items/{id}`: what is left.
async fn look(State(counter): State<Counter>, Path(id): Path<String>) -> Response {
    if id != ITEM {
        return StatusCode::NOT_FOUND.into_response();
    }
    match counter.shop.store.look(None).await {
        Ok(shelf) => Json(serde_json::json!({ "item": ITEM, "left": shelf.left })).into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// `POST /items/{id}/orders` with `{"buyer": 7}`: 201 ordered, 409 already bought, 410 sold out, 503 busy.
async fn order(State(counter): State<Counter>, Path(id): Path<String>, Json(order): Json<Order>) -> Response {
    if id != ITEM {
        return StatusCode::NOT_FOUND.into_response();
    }
    let (reply, answer) = oneshot::channel();
    let request = Request { buyer: order.buyer, came: Instant::now(), reply: Some(reply) };
    let answer = match counter.queue.try_send(request) {
        Ok(()) => answer.await.unwrap_or(Answer::Failed),
        Err(_) => Answer::Busy,
    };
    let told = (status(answer), Json(Told { answer }));
    match answer {
        Answer::Busy => ([(RETRY_AFTER, "1")], told).into_response(),
        _ => told.into_response(),
    }
}

fn status(answer: Answer) -> StatusCode {
    match answer {
        Answer::Ordered => StatusCode::CREATED,
        Answer::AlreadyBought => StatusCode::CONFLICT,
        Answer::SoldOut => StatusCode::GONE,
        Answer::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Answer::Failed => StatusCode::BAD_GATEWAY,
    }
}

/// Orders one at this host, for the buyer.
pub(crate) async fn ask(host: SocketAddr, buyer: u32) -> Result<Answer> {
    let down = |err: &dyn std::fmt::Display| Trouble::unavailable("a host", err);
    let stream = TcpStream::connect(host).await.map_err(|err| down(&err))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|err| down(&err))?;
    tokio::spawn(connection);
    let order = serde_json::to_vec(&Order { buyer }).map_err(|err| Trouble::internal("an order", err))?;
    let request = HttpRequest::post(format!("/items/{ITEM}/orders"))
        .header("host", host.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(order)))
        .map_err(|err| Trouble::internal("a request", err))?;
    let response = sender.send_request(request).await.map_err(|err| down(&err))?;
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|err| down(&err))?;
    let told: Told = serde_json::from_slice(&body.to_bytes()).map_err(|err| down(&err))?;
    Ok(told.answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_a_status_of_its_own() {
        let answers = [Answer::Ordered, Answer::AlreadyBought, Answer::SoldOut, Answer::Busy, Answer::Failed];
        let codes: std::collections::BTreeSet<u16> = answers.map(|answer| status(answer).as_u16()).into();
        assert_eq!(codes.len(), answers.len());
    }
}
