//! Exchanges a page's key for a bearer token, which is the same key (spec §4.5).

use tokio::time::Instant;

use super::error::{FormError, TokenError};
use super::time_limits::{StoreBudget, deadline, until};
use super::{Limited, PageService, request::Credential};
use crate::ports::rate_limiter::LimitKind;
use crate::values::{client::Client, edit_key::EditKey, record::Record, slug::Slug};

/// RFC 6749 §4.4.
pub const GRANT_TYPE: &str = "client_credentials";

pub const SCOPE_EDIT: &str = "post:edit";

pub const SCOPE_DELETE: &str = "post:delete";

pub const SCOPES: [(&str, &str); 2] = [(SCOPE_EDIT, "Edit the page"), (SCOPE_DELETE, "Delete the page")];

pub fn scope() -> String {
    SCOPES.map(|(name, _)| name).join(" ")
}

/// No `Debug`: people put keys into wrong fields.
pub struct TokenForm {
    pub grant_type: String,
    pub client: Option<TokenClient>,
    /// Empty for all.
    pub scope: String,
}

pub struct TokenClient {
    pub id: String,
    pub secret: Credential,
}

impl PageService {
    /// Every attempt counts. `form` is polled after the rate limit, outside [`DEADLINE`](super::DEADLINE).
    pub async fn token(
        &self,
        client: Client,
        form: impl Future<Output = Result<TokenForm, FormError>>,
    ) -> Limited<EditKey, TokenError> {
        let exchange = async {
            let form = form.await;
            let deadline = deadline();
            until(deadline, self.exchange(form, deadline)).await
        };
        self.admit(LimitKind::Token, client, exchange).await
    }

    async fn exchange(&self, form: Result<TokenForm, FormError>, deadline: Instant) -> Result<EditKey, TokenError> {
        let form = form?;
        if form.grant_type != GRANT_TYPE {
            return Err(TokenError::UnsupportedGrant);
        }
        let key = self.authenticated(form.client.ok_or(TokenError::NoClient)?, deadline).await?;
        let mut scopes = form.scope.split(' ').filter(|scope| !scope.is_empty());
        if scopes.all(|scope| SCOPES.iter().any(|(name, _)| *name == scope)) { Ok(key) } else { Err(TokenError::Scope) }
    }

    /// Whether a page exists is not secret, so a missing page may take another time.
    async fn authenticated(&self, client: TokenClient, deadline: Instant) -> Result<EditKey, TokenError> {
        let slug = Slug::parse(&client.id).map_err(|_| TokenError::WrongClient)?;
        let Some(Record::Active(head)) = StoreBudget::new(deadline).wait(self.store.head(&slug)).await? else {
            return Err(TokenError::WrongClient);
        };
        Ok(client.secret.open(head.state.key_hash).map_err(|_| TokenError::WrongClient)?.clone())
    }
}
