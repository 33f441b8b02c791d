// Package provider buys tokens from solving services. A Client uses one account at one service: it
// submits tasks, polls them, and reports whether a site accepted a token. The class of an error
// determines what the caller must do.
//
// Package purchase uses the clients and owns the orders. It brakes an account that has a fault or an outage, for all
// replicas. A Client has no state except the last balance. Services differ in three ways:
//
//	protocol  how calls and answers are written      a file for each, as inphp.go
//	fields    how a captcha's parameters are written the table of types in package captcha
//	profile   what each error code means, the pace   profiles.go
//
// # Adding a service, a type or a protocol
//
// A service that speaks a known protocol needs only its addresses and its name in targets/providers.go, and what
// differs at it in profiles.go and captcha.Kinds. A new type of CAPTCHA is a row in captcha.Kinds. A new protocol needs
//
//   - its name and its addresses in targets/providers.go: a constant, a word of Provider.Protocol with its comment, and
//     its paths in method; in Provider.validate the keys that it lacks, such as callback_url
//   - a type with the interface protocol in a file of its own, with its names of types and fields, and a row in
//     protocolOf (client.go). It refuses a type or a field that it cannot send: a token without this field would be
//     sold as one with it
//   - a dialect in a test file of its own (see inphp_test.go), and answers in testdata/PROTOCOL.txt: under hostile the
//     answers that look like one of the protocol; testdata/hostile.txt has those of all protocols. Then all tests of
//     replies, secrets and limits try it, and TestRequests with -update records its calls
//   - if its calls are no POST, or have the key in a header: query and exchange (transport.go), and the invariant about
//     the key below
//
// The simulated service and the compatible endpoints need not speak it.
//
// # Solutions
//
// A service may also send the result of a task to poold, in a callback. ReadCallback reads the callbacks of all
// services.
//
// A solution of any type of CAPTCHA is stored as one text: a token, the text of a picture, or the
// named values of a GeeTest as the service wrote them. IsAnswer validates a solution.
//
// # Errors
//
// Every failure is an *Error with a Class, except ErrNotReady and a cancellation by the caller. If
// the service refused a submission as the protocol defines, or if the request never left this
// machine, nothing was bought. Every other failed submission (timeout, 5xx, HTML page, truncated or
// unreadable reply) has Error.Unknown set and counts as bought. A network error of a poll is a
// Capacity fault and does not end the task.
//
// # Invariants
//
//   - A submission is written to the network at most once, by a plain POST over HTTP/1.1 without
//     redirects and retries. The request has no GetBody and no Idempotency-Key, because Go's
//     transport may send such requests again.
//   - The key is sent only in the body of requests. It never appears in a URL or an error, even if
//     the service echoes it. The only part of a reply that is quoted is an unknown error code,
//     cleaned and cut. Callback URLs, the contents of callbacks and the bytes of pictures are never
//     quoted either. The Client keeps no picture after the submission.
//   - A call ends within 10 s and reads 64 KiB at most.
//   - A Client starts no goroutine; Close closes its idle connections.
package provider
