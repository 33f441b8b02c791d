package testkit

// NoError ends a test with a failure if err is not nil.
func NoError(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
