//! Exchanging a page's key for a bearer token, which is the same key (spec §4.5).

use thiserror::Error;
use tokio::time::Instant;

use super::request::Credential;
use super::{Attempt, PageService, ServiceError, StoreBudget, within_deadline};
use crate::domain::client::Client;
use crate::domain::edit_key::EditKey;
use crate::domain::oauth::{GRANT_TYPE, SCOPES};
use crate::domain::slug::Slug;
use crate::ports::page_store::Lookup;
use crate::ports::rate_limiter::LimitKind;

/// What a client asks of the token endpoint: a form taken apart, not yet judged. It has no `Debug`, since people put
/// keys into the wrong fields.
pub struct TokenForm {
    /// The kind of exchange.
    pub grant_type: String,
    /// The page whose token is asked for; `None` where the client did not say who it is.
    pub client: Option<TokenClient>,
    /// The scopes asked for, separated by spaces; empty for all.
    pub scope: String,
}

/// Who asks for a token.
pub struct TokenClient {
    /// The slug of the page, as it was sent.
    pub id: String,
    /// The key that was presented as the secret.
    pub secret: Credential,
}

/// Why no token is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The request does not hold a valid form.
    #[error("the form is not valid: {0}")]
    Form(#[from] FormError),
    /// Another grant is asked for than there is.
    #[error("the grant is not supported")]
    UnsupportedGrant,
    /// The client did not say who it is.
    #[error("no client credentials were presented")]
    NoClient,
    /// No page has these credentials: there is none, it was deleted, or the key is another.
    #[error("no page has these client credentials")]
    WrongClient,
    /// More is asked for than a page's key allows.
    #[error("the scope goes beyond what there is")]
    Scope,
}

/// Why a request does not hold a valid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// It is larger than any request may be.
    #[error("the body is too large")]
    TooLarge,
    /// It did not arrive in time.
    #[error("the body did not arrive in time")]
    TimedOut,
    /// There is no memory left for it.
    #[error("there is no room for the body")]
    NoRoom,
    /// The connection broke before its end.
    #[error("the body broke off")]
    BrokenOff,
    /// It is not declared to be a form.
    #[error("its content type is not that of a form")]
    ContentType,
    /// It has a `Content-Encoding`.
    #[error("it is encoded")]
    ContentEncoding,
    /// It is not UTF-8, or was not before it was percent-encoded.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A credential is in the query string, where logs and histories keep it.
    #[error("a credential is in the query string")]
    InQuery,
    /// A field is there twice; it is named if it is one of ours.
    #[error("a field is there twice")]
    Repeated(Option<&'static str>),
    /// The client presents credentials in more than one way.
    #[error("credentials are presented in more than one way")]
    TwoMethods,
    /// It does not say which grant is asked for.
    #[error("the grant type is missing")]
    NoGrantType,
}

impl PageService {
    /// The page's own key as a token, for a client that presents the page's slug and key. Every attempt is counted.
    /// The form is read when it is its turn, and may take as long as its sender is given.
    pub async fn token(
        &self,
        client: Client,
        form: impl Future<Output = Result<TokenForm, FormError>>,
    ) -> Attempt<EditKey> {
        let exchange = async {
            let form = form.await;
            within_deadline(Instant::now(), self.exchange(form)).await
        };
        self.admitted(LimitKind::Token, client, exchange).await
    }

    async fn exchange(&self, form: Result<TokenForm, FormError>) -> Result<EditKey, ServiceError> {
        let form = form.map_err(TokenError::Form)?;
        if form.grant_type != GRANT_TYPE {
            return Err(TokenError::UnsupportedGrant.into());
        }
        let key = self.authenticated(form.client.ok_or(TokenError::NoClient)?).await?;
        let known = |scope: &str| SCOPES.iter().any(|(name, _)| *name == scope);
        if form.scope.split(' ').filter(|scope| !scope.is_empty()).all(known) {
            Ok(key)
        } else {
            Err(TokenError::Scope.into())
        }
    }

    /// The key of `client` if it opens the page that `client` names. Hashes are compared in constant time; whether a
    /// page exists is no secret.
    async fn authenticated(&self, client: TokenClient) -> Result<EditKey, ServiceError> {
        let slug = Slug::parse(&client.id).map_err(|_| TokenError::WrongClient)?;
        let Lookup::Active(page) = StoreBudget::new().wait(self.store.lookup(&slug)).await? else {
            return Err(TokenError::WrongClient.into());
        };
        Ok(client.secret.open(&page).map_err(|_| TokenError::WrongClient)?.clone())
    }
}
