//! The login and the certificates of the cluster. Their files are read for each new connection, so that a changed
//! password or certificate needs no restart.
//!
//! The driver opens connections at any time: to a node that is back, or that has joined. A file that cannot be used
//! then fails that connection, and the driver tries again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use scylla::authentication::{AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator};

use super::settings_error::SettingsError;
use crate::settings::CqlSettings;

/// Logs in with the password that the file holds at that moment.
pub(super) struct FileLogin {
    user: String,
    file: PathBuf,
}

impl FileLogin {
    /// The login of `user`. Fails if the file cannot be read now.
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

fn unusable(
    path: &Path,
    option: &'static str,
    reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SettingsError {
    SettingsError::File { path: path.to_owned(), option, reason: reason.into() }
}

/// The TLS of `settings`: `None` without an authority. It trusts the certificates in that file and no others, and shows
/// the client's certificate if there is one. Fails if a file cannot be used now.
pub(super) fn tls(settings: &CqlSettings) -> Result<Option<ClientConfig>, SettingsError> {
    let files = &settings.client_cert_files;
    let Some(file) = &settings.ca_file else {
        return if files.is_empty() { Ok(None) } else { Err(SettingsError::IdentityWithoutTls) };
    };
    // An explicit provider, so that the providers of other libraries do not matter.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let authorities = FileAuthorities { file: file.clone(), provider: Arc::clone(&provider) };
    authorities.read()?;
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(file, FileAuthorities::OPTION, error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(authorities));
    let mut config = if files.is_empty() {
        config.with_no_client_auth()
    } else {
        let identity = FileIdentity { files: files.clone(), provider };
        identity.read()?;
        config.with_client_cert_resolver(Arc::new(identity))
    };
    // A resumed session would keep the certificates of the connection that it began with.
    config.resumption = Resumption::disabled();
    Ok(Some(config))
}

/// Trusts the authorities that the file holds at that moment.
#[derive(Debug)]
struct FileAuthorities {
    file: PathBuf,
    provider: Arc<CryptoProvider>,
}

impl FileAuthorities {
    const OPTION: &str = "--scylla-ca-file";

    fn read(&self) -> Result<Arc<WebPkiServerVerifier>, SettingsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.file, Self::OPTION)? {
            roots.add(certificate).map_err(|error| unusable(&self.file, Self::OPTION, error))?;
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
            .build()
            .map_err(|error| unusable(&self.file, Self::OPTION, error))
    }
}

impl ServerCertVerifier for FileAuthorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let authorities = self.read().map_err(|error| rustls::Error::General(error.to_string()))?;
        authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Shows the certificate that the files hold at that moment.
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

    fn of_pem(&self, pem: &[u8]) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
        if chain.is_empty() {
            return Err("there is no certificate".into());
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
            pem::Error::NoItemsFound => "there is no private key".into(),
            error => Box::<dyn std::error::Error + Send + Sync>::from(error),
        })?;
        Ok(CertifiedKey::from_der(chain, key, &self.provider)?)
    }
}

impl ResolvesClientCert for FileIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match self.read() {
            Ok(identity) => Some(Arc::new(identity)),
            Err(error) => {
                // The server then refuses the connection, and its answer does not say why.
                tracing::warn!(%error, "connecting to the database without a certificate");
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The certificates in a file: at least one.
fn certificates(path: &Path, option: &'static str) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unusable(path, option, error))?;
    if certificates.is_empty() {
        return Err(unusable(path, option, "it holds no certificate"));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, Issuer, KeyPair};
    use rustls::pki_types::pem::PemObject;
    use tempfile::TempDir;

    use super::*;
    use crate::settings::of_a_test;

    fn settings(files: &TempDir, options: &[(&str, &str)]) -> CqlSettings {
        let named = |wanted| {
            let names = options.iter().filter(move |(option, _)| *option == wanted);
            names.map(|(_, name)| files.path().join(name))
        };
        CqlSettings { ca_file: named(CA.0).next(), client_cert_files: named(CERTIFICATE.0).collect(), ..of_a_test() }
    }

    /// A certificate for `name` and its key, signed by itself.
    fn write_pair(files: &TempDir, name: &str) {
        let pair = rcgen::generate_simple_self_signed([format!("{name}.example")]).unwrap();
        fs::write(files.path().join(format!("{name}.crt")), pair.cert.pem()).unwrap();
        fs::write(files.path().join(format!("{name}.key")), pair.signing_key.serialize_pem()).unwrap();
    }

    const CA: (&str, &str) = ("--scylla-ca-file", "ca.crt");
    const CERTIFICATE: (&str, &str) = ("--scylla-client-cert-file", "client.crt");
    const KEY: (&str, &str) = ("--scylla-client-cert-file", "client.key");

    #[test]
    fn a_client_certificate_needs_its_key_and_tls_and_a_key_that_fits() {
        let files = tempfile::tempdir().unwrap();
        for name in ["ca", "client", "other"] {
            write_pair(&files, name);
        }
        fs::write(files.path().join("empty"), "").unwrap();
        assert!(
            tls(&settings(&files, &[CA])).unwrap().is_some_and(|config| !config.client_auth_cert_resolver.has_certs())
        );
        let both: String =
            [CERTIFICATE.1, KEY.1].map(|name| fs::read_to_string(files.path().join(name)).unwrap()).concat();
        fs::write(files.path().join("both.pem"), both).unwrap();
        for identity in [&[CERTIFICATE, KEY][..], &[KEY, CERTIFICATE], &[(CERTIFICATE.0, "both.pem")]] {
            let with_identity = tls(&settings(&files, &[&[CA], identity].concat())).unwrap().unwrap();
            assert!(with_identity.client_auth_cert_resolver.has_certs());
        }
        for (options, told) in [
            (&[CA, CERTIFICATE][..], "client.crt, named by --scylla-client-cert-file (there is no private key)"),
            (&[CA, KEY], "there is no certificate"),
            (&[CERTIFICATE, KEY], "--scylla-ca-file"),
            (&[CA, CERTIFICATE, (KEY.0, "other.key")], "--scylla-client-cert-file"),
            (&[CA, CERTIFICATE, (KEY.0, "missing")], "missing, named by --scylla-client-cert-file"),
            (&[CA, (CERTIFICATE.0, "empty"), KEY], "there is no certificate"),
            (&[(CA.0, "empty")], "holds no certificate"),
        ] {
            let line = tls(&settings(&files, options)).unwrap_err().to_string();
            assert!(line.contains(told) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_changed_certificate_is_shown_at_the_next_connection() {
        let files = tempfile::tempdir().unwrap();
        write_pair(&files, "ca");
        write_pair(&files, "client");
        let config = tls(&settings(&files, &[CA, CERTIFICATE, KEY])).unwrap().unwrap();
        let shown = || config.client_auth_cert_resolver.resolve(&[], &[]).map(|identity| identity.cert.clone());
        let first = shown().unwrap();
        write_pair(&files, "client");
        let second = shown().unwrap();
        assert_ne!(first, second);
        assert_eq!(second, [CertificateDer::from_pem_file(files.path().join("client.crt")).unwrap()]);
        fs::remove_file(files.path().join("client.key")).unwrap();
        assert!(shown().is_none());
    }

    #[test]
    fn a_changed_authority_is_trusted_at_the_next_connection_and_the_old_one_no_longer() {
        let files = tempfile::tempdir().unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authorities = FileAuthorities { file: files.path().join("ca.crt"), provider };
        // An authority, in the file, and a node's certificate that it signed.
        let replaced = || {
            let mut parameters = CertificateParams::default();
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            fs::write(&authorities.file, parameters.self_signed(&key).unwrap().pem()).unwrap();
            let node = CertificateParams::new(["node.example".to_owned()]).unwrap();
            node.signed_by(&KeyPair::generate().unwrap(), &Issuer::new(parameters, key)).unwrap().der().clone()
        };
        let is_trusted = |node: &CertificateDer<'_>| {
            let name = ServerName::try_from("node.example").unwrap();
            // 2026-01-01, within the validity of what rcgen makes by default.
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_hours(490_896));
            authorities.verify_server_cert(node, &[], &name, &[], now).is_ok()
        };
        let old = replaced();
        assert!(is_trusted(&old));
        let new = replaced();
        assert!(is_trusted(&new));
        assert!(!is_trusted(&old));
    }

    #[tokio::test]
    async fn a_changed_password_is_used_at_the_next_connection() {
        let files = tempfile::tempdir().unwrap();
        let file = files.path().join("password");
        fs::write(&file, "correcthorse\n").unwrap();
        let login = FileLogin::new("handbill", &file).unwrap();
        let sent = async || {
            let answer = login.start_authentication_session("PasswordAuthenticator").await;
            answer.map(|(first, _)| first.unwrap())
        };
        assert_eq!(sent().await.unwrap(), b"\0handbill\0correcthorse");
        fs::write(&file, "batterystaple\r\n").unwrap();
        assert_eq!(sent().await.unwrap(), b"\0handbill\0batterystaple");
        fs::remove_file(&file).unwrap();
        let line = sent().await.unwrap_err();
        assert!(line.contains("--scylla-password-file") && !line.contains("staple"), "{line}");
    }
}
