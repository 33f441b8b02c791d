// Package provider buys tokens from a solving service. A Client is one account at one
// service: it submits a task, polls it, and reports whether the token was good. Each error
// says what the caller has to do about it.
//
// Package purchase calls it and owns the orders. Services differ in three ways:
//
//	protocol  how calls and answers are written      legacy.go  tasks.go  reply.go
//	fields    how a captcha's parameters are written wire/legacyfields.go  wire/task.go
//	profile   what each error code means, the pace   profiles.go
//
// # Adding a service
//
// A service that speaks one of the two protocols is a profile: add its name to Profiles and
// profileNamed, the codes that it uses differently, its pace, and its word to the key profile in
// targets/set.go.
//
// A new protocol is a type that implements the interface protocol (client.go; five methods, with
// tasks.go as the model), an API constant here and in targets/set.go, and its case in New. Check
// also its pace (profiles.go) and ReportWindow (report.go). The methods that make requests return a
// query, and the readers return an answer. The Client does the rest: breaker, secrets and error
// classes. If poold should also serve the new protocol, add its reader to package wire. A row in
// dialects (hostile_test.go) tests the protocol with every hostile answer.
//
// A new captcha type is a row in wire.legacyMethods and wire.taskNames, its fields in
// legacyFields and Task, and a case in captcha.Named or IsAnswer if its answer is not one token.
//
// # Protocols
//
// "legacy" is POST form to /in.php and /res.php, with JSON or plain text back; "tasks" is POST
// JSON to /createTask and /getTaskResult. A service may also send the result itself. Such a
// pingback can have the form of any service, so ReadCallback needs no protocol.
//
// A solution of any type is a text, so that it can be stored as one: a token, the text of a
// picture, or the named values of a GeeTest as the service wrote them. IsAnswer validates it,
// captcha.Named reads the values.
//
// # What an error says
//
// Every failure except ErrNotReady and the caller's own cancellation is an *Error with a Class.
// A submit that was refused in the protocol, or that never left this machine, is provably not
// bought. Every other failed submit (time-out, 5xx, an HTML page, a cut or unreadable answer)
// has Error.Unknown set and counts as bought. A network error of a poll is a Capacity fault and
// does not end the task.
//
// # When calls are made
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
//   - A submit is written to the network at most once: plain POST over HTTP/1.1, no redirects, no
//     retry. It has no GetBody and no Idempotency-Key, because Go's transport may re-send requests
//     that have them.
//   - The key is sent only in the body. It is in no URL, error, log line or state, even if
//     the service echoes it. The only quoted part of an answer is an unknown error code,
//     cleaned and cut. The same holds for pingback URLs, the contents of pingbacks and the
//     bytes of pictures, which are released after the submit.
//   - A report is made only while the provider accepts calls. It neither begins nor ends an
//     outage. Only an account fault and a rate limit in its answer change the provider's state.
//   - A call ends within 10 s and reads 64 KiB at most.
//   - While an account fault lasts, at most one submit is made in each turn.
//   - A Client starts no goroutine; Close drops its idle connections.
//
// The package does not receive pingbacks or authenticate their senders. It does not repeat calls,
// wait between polls, count tasks in flight, evaluate a token's age, or choose between services.
package provider
