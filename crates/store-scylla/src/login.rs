//! Login and TLS. Password and client certificate are read for each new connection, so that a change needs no restart;
//! the authorities are read once.

use std::path::{Path, PathBuf};
use std::{fs, sync::Arc};

use async_trait::async_trait;
use handbill_pages::ports::page_store::Cause;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, RootCertStore, SignatureScheme, crypto::CryptoProvider, pki_types::pem::PemObject, sign::CertifiedKey,
};
use scylla::authentication::{AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator};

use super::settings::{ScyllaSettings, SettingsError};

pub(super) struct FileLogin {
    user: String,
    file: PathBuf,
}

impl FileLogin {
    pub(super) fn new(user: &str, file: &Path) -> Result<Self, SettingsError> {
        password(file)?;
        Ok(Self { user: user.to_owned(), file: file.to_owned() })
    }
}

#[async_trait]
impl AuthenticatorProvider for FileLogin {
    async fn start_authentication_session(
        &self,
        authenticator: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let password = password(&self.file).map_err(|error| error.to_string())?;
        PlainTextAuthenticator::new(self.user.clone(), password).start_authentication_session(authenticator).await
    }
}

fn password(path: &Path) -> Result<String, SettingsError> {
    let text = fs::read_to_string(path).map_err(|reason| unusable(path, "--scylla-password-file", reason))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn unusable(path: &Path, option: &'static str, reason: impl Into<Cause>) -> SettingsError {
    SettingsError::File { path: path.to_owned(), option, reason: reason.into() }
}

/// The configuration of TLS; `None` without an authority, which alone is trusted. Fails if a file cannot be used now.
pub(super) fn tls(settings: &ScyllaSettings) -> Result<Option<ClientConfig>, SettingsError> {
    let files = &settings.client_cert_files;
    let Some(file) = &settings.ca_file else {
        return if files.is_empty() { Ok(None) } else { Err(SettingsError::IdentityWithoutTls) };
    };
    let roots = authorities(file).map_err(|reason| unusable(file, "--scylla-ca-file", reason))?;
    // Other libraries may have chosen another provider.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(file, "--scylla-ca-file", error))?
        .with_root_certificates(roots);
    let mut config = if files.is_empty() {
        config.with_no_client_auth()
    } else {
        let identity = FileIdentity { files: files.clone(), provider };
        identity.read()?;
        config.with_client_cert_resolver(Arc::new(identity))
    };
    // A resumed session would keep its first certificate.
    config.resumption = Resumption::disabled();
    Ok(Some(config))
}

fn authorities(file: &Path) -> Result<RootCertStore, Cause> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    if roots.is_empty() { Err("it holds no certificate".into()) } else { Ok(roots) }
}

#[derive(Debug)]
struct FileIdentity {
    files: Vec<PathBuf>,
    provider: Arc<CryptoProvider>,
}

impl FileIdentity {
    const OPTION: &str = "--scylla-client-cert-file";

    fn read(&self) -> Result<CertifiedKey, SettingsError> {
        let mut pem = Vec::new();
        for file in &self.files {
            pem.extend(fs::read(file).map_err(|reason| unusable(file, Self::OPTION, reason))?);
            pem.push(b'\n');
        }
        self.of_pem(&pem).map_err(|reason| {
            let files: Vec<_> = self.files.iter().map(|file| file.to_string_lossy()).collect();
            unusable(Path::new(&files.join(",")), Self::OPTION, reason)
        })
    }

    fn of_pem(&self, pem: &[u8]) -> Result<CertifiedKey, Cause> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
        if chain.is_empty() {
            return Err("there is no certificate".into());
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "there is no private key")?;
        Ok(CertifiedKey::from_der(chain, key, &self.provider)?)
    }
}

impl ResolvesClientCert for FileIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // The server's refusal does not say that the certificate is missing.
        let read = self.read();
        let read = read.inspect_err(|error| tracing::warn!(%error, "connecting to the database without a certificate"));
        read.ok().map(Arc::new)
    }

    fn has_certs(&self) -> bool {
        true
    }
}
