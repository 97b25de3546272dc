// Package secret keeps credentials out of pipelines, logs and errors.
//
// A credential travels as a Ref: text with references in it, which a worker
// resolves where and when it needs the value.
//
//	${env:X}        the environment variable X of the worker
//	${file:/path}   the content of a file of the worker, without its last line end
//
// References may stand anywhere in the text, so a JAAS line or a URL keeps its
// shape: amqps://app:${file:/run/secrets/broker}@host. Text outside of
// references travels as it is and is not secret; ParseURL hides the password of
// a URL.
//
// A Literal is for pipelines that stay in the process (Prism): the value is
// kept in a table of this process and what travels is a handle. CheckRunner
// refuses literals for every other runner.
//
// Files are read again at each Resolve, and Value.Version tells whether the
// value changed, so that rotated credentials take effect without a restart.
package secret
