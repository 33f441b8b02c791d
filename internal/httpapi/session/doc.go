// Package session signs the cookies that keep a browser logged in to the status page.
//
// A cookie names a key of the configuration file and the end of the session, and has a signature
// over both and over the digest of the key. A cookie therefore becomes invalid when a reload
// removes its key: no key of the new file fits the signature. The cookie contains neither the key
// nor its digest.
//
// The replicas share one random secret in Redis (captcha:session:secret), so that each replica
// accepts the cookies of the others. A replica that has read the secret checks cookies even while
// Redis is down. The package keeps no list of sessions: a logout deletes the cookie in the browser,
// and a stolen cookie is valid until its end or until its key leaves the file.
package session
