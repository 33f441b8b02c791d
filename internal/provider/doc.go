// Package provider buys tokens from solving services. A Client uses one account at one service: it
// submits tasks, polls them, and reports whether a site accepted a token. The class of an error
// determines what the caller must do.
//
// Package purchase uses the clients and owns the orders. Services differ in three ways:
//
//	protocol  how calls and answers are written      legacy.go  tasks.go  reply.go
//	fields    how a captcha's parameters are written wire/legacyfields.go  wire/task.go
//	profile   what each error code means, the pace   profiles.go
//
// # Adding a service
//
// A service that speaks one of the two protocols needs only a profile. Add the profile's name to
// Profiles, to profileNamed, and to the words of the key `profile` in targets/set.go. Also add the
// codes that have a different meaning at this service, and the pace.
//
// A type for a new protocol implements the interface `protocol` (client.go). Use tasks.go as the
// model. The methods that make requests return a query, and the functions that parse replies return
// an answer. The Client does the rest: circuit breaker, secrets and error classes.
//
// A new protocol also needs an API constant in this package and in targets/set.go, and a case in
// New. Check whether the pace (profiles.go) and ReportWindow (report.go) suit the protocol. If
// poold itself should serve the new protocol, add a parser of its requests to package wire. A new
// row in the table `dialects` (hostile_test.go) tests the protocol with every hostile reply.
//
// A new type of CAPTCHA needs a row in wire.legacyMethods and in wire.taskNames, and its fields in
// legacyFields and Task. If the solution is not a single token, the type also needs a case in
// captcha.Named or IsAnswer.
//
// # Protocols
//
// The protocol "legacy" sends forms by POST to /in.php and /res.php, and receives JSON or plain
// text. The protocol "tasks" sends JSON by POST to /createTask and /getTaskResult. A service may
// also send the result of a task to poold, in a pingback. ReadCallback reads the pingbacks of all
// services.
//
// A solution of any type of CAPTCHA is stored as one text: a token, the text of a picture, or the
// named values of a GeeTest as the service wrote them. IsAnswer validates a solution, and
// captcha.Named parses the named values.
//
// # Errors
//
// Every failure is an *Error with a Class, except ErrNotReady and a cancellation by the caller. If
// the service refused a submission as the protocol defines, or if the request never left this
// machine, nothing was bought. Every other failed submission (timeout, 5xx, HTML page, truncated or
// unreadable reply) has Error.Unknown set and counts as bought. A network error of a poll is a
// Capacity fault and does not end the task.
//
// # When a Client makes calls
//
//	busy     a capacity fault; Ready says no for its delay, which grows by half
//	         with every further fault up to 30 s; polls go on
//	outage   five calls in a row without a proper answer; then one call in 10 s,
//	         until a call gets a proper answer
//	account  wrong key, no money, ban: one submit a minute, or one at the end of
//	         a ban of known length; tasks that were bought are polled, slowly
//	         until a poll is answered (PollTurn)
//
// # Invariants
//
//   - A submission is written to the network at most once, by a plain POST over HTTP/1.1 without
//     redirects and retries. The request has no GetBody and no Idempotency-Key, because Go's
//     transport may send such requests again.
//   - The key is sent only in the body of requests. It never appears in a URL, error, log line or
//     state, even if the service echoes it. The only part of a reply that is quoted is an unknown
//     error code, cleaned and cut. Pingback URLs, the contents of pingbacks and the bytes of
//     pictures are never quoted either. The Client keeps no picture after the submission.
//   - Reports are sent only while there is neither an account fault nor an outage. A report neither
//     begins nor ends an outage. The reply to a report changes the provider's state only by an
//     account fault or a rate limit.
//   - A call ends within 10 s and reads 64 KiB at most.
//   - While an account fault lasts, at most one submission is made in each turn.
//   - A Client starts no goroutine; Close closes its idle connections.
//
// The package does not receive pingbacks, and does not authenticate their senders. It does not
// repeat calls, wait between polls, count tasks in flight, evaluate the age of a token, or choose
// between services.
package provider
