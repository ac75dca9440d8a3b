//! What little of gRPC is needed: one message up, one or many down, and a status at the end.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use prost::Message;

/// A line of 10,000 places with the longest names and notes has room in it.
const LARGEST: usize = 64 << 20;
/// One byte that says whether the message is compressed, four that say how long it is.
const FRAME: usize = 5;

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server said so.
    Status(Status),
    /// The connection broke, or what came over it makes no sense.
    Broken(tenure_core::BoxError),
}

/// What a server says at the end of a call that failed.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) code: u32,
    pub(crate) message: String,
}

impl From<h2::Error> for Fault {
    fn from(err: h2::Error) -> Self {
        Self::Broken(err.into())
    }
}

fn broken(message: &'static str) -> Fault {
    Fault::Broken(message.into())
}

/// Calls a method that takes one message, and gives the answers as they come. The stream upwards is open for as long as
/// the first of the pair lives.
pub(crate) async fn call<R: Message + Default>(
    requests: &SendRequest<Bytes>,
    uri: Uri,
    token: Option<&HeaderValue>,
    message: &impl Message,
    ends: bool,
) -> Result<(SendStream<Bytes>, Answers<R>), Fault> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    // A server that knows of no leader says so instead of keeping the call.
    headers.insert("hasleader", HeaderValue::from_static("true"));
    if let Some(token) = token {
        headers.insert("token", token.clone());
    }
    let mut requests = requests.clone().ready().await?;
    let (answer, mut up) = requests.send_request(request, false)?;
    up.send_data(framed(message), ends)?;
    let (parts, body) = answer.await?.into_parts();
    if !parts.status.is_success() {
        return Err(broken("the server does not speak gRPC"));
    }
    if parts.headers.contains_key("grpc-status") {
        // The whole answer is a status: nothing follows.
        status(&parts.headers)?;
    }
    Ok((up, Answers { body, buffer: BytesMut::new(), message: PhantomData }))
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(FRAME + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // It grows as needed, so this cannot fail.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

/// The answers to one call.
#[derive(Debug)]
pub(crate) struct Answers<R> {
    body: RecvStream,
    buffer: BytesMut,
    message: PhantomData<fn() -> R>,
}

impl<R: Message + Default> Answers<R> {
    /// The next message, or `None` when the server ended the call well.
    pub(crate) async fn next(&mut self) -> Result<Option<R>, Fault> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            match self.body.data().await {
                Some(chunk) => {
                    let chunk = chunk?;
                    self.body.flow_control().release_capacity(chunk.len())?;
                    self.buffer.extend_from_slice(&chunk);
                }
                None if !self.buffer.is_empty() => return Err(broken("an answer was cut off")),
                None => {
                    let trailers = self.body.trailers().await?;
                    status(&trailers.unwrap_or_default())?;
                    return Ok(None);
                }
            }
        }
    }

    fn take(&mut self) -> Result<Option<R>, Fault> {
        let Some(head) = self.buffer.first_chunk::<FRAME>() else { return Ok(None) };
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if head[0] != 0 || length > LARGEST {
            return Err(broken("an answer is compressed or too large"));
        }
        if self.buffer.len() < FRAME + length {
            return Ok(None);
        }
        self.buffer.advance(FRAME);
        let message = self.buffer.split_to(length).freeze();
        R::decode(message).map(Some).map_err(|err| Fault::Broken(err.into()))
    }

    /// The only message of a call that has one.
    pub(crate) async fn only(&mut self) -> Result<R, Fault> {
        let message = self.next().await?;
        // The status comes last, and counts.
        while self.next().await?.is_some() {}
        message.ok_or_else(|| broken("a call was answered with nothing"))
    }
}

fn status(headers: &HeaderMap) -> Result<(), Fault> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse().ok());
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            let message = text("grpc-message").unwrap_or_default();
            let message = percent_encoding::percent_decode_str(message).decode_utf8_lossy().into_owned();
            Err(Fault::Status(Status { code, message }))
        }
        None => Err(broken("a call ended without a status")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&'static str, &'static str)]) -> Result<(), Fault> {
        let headers = headers.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        status(&headers.collect())
    }

    #[test]
    fn a_status_is_read_and_none_is_no_success() {
        assert!(of(&[("grpc-status", "0")]).is_ok());
        assert!(matches!(of(&[]), Err(Fault::Broken(_))));
        assert!(matches!(of(&[("grpc-status", "x")]), Err(Fault::Broken(_))));
        let Err(Fault::Status(status)) = of(&[("grpc-status", "14"), ("grpc-message", "no%20leader")]) else {
            panic!("a status is no status")
        };
        assert_eq!((status.code, status.message.as_str()), (14, "no leader"));
    }

    #[test]
    fn a_frame_says_how_long_it_is() {
        let frame = framed(&crate::pb::LeaseId { id: 300 });
        assert_eq!(&frame[..], [0, 0, 0, 0, 3, 8, 0xac, 2]);
    }
}
