package graphqlhttp

import (
	"errors"

	"github.com/99designs/gqlgen/graphql"

	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/jsonvalue"
)

// blanks are what JSON allows around a value.
const blanks = " \t\r\n"

// kindError is a field of a request that has a value of the wrong kind.
type kindError struct {
	field string // empty: the request itself
	want  string
}

func (e *kindError) Error() string { return e.field + " must be " + e.want }

// open stands before the one JSON value of data. Text that is not Unicode is refused: a decoder would put U+FFFD in its place.
func open(data []byte) (in jsonvalue.Reader, bad *requestError) {
	if err := graph.CheckJSONText(data); err != nil {
		return in, badBody("%s", err)
	}
	return jsonvalue.NewReader(data), nil
}

// finish says what is wrong with what was read, if anything is. err is that of reading.
func finish(in *jsonvalue.Reader, err error, what string) *requestError {
	switch {
	case err != nil:
		return badJSON(err, what)
	case !in.End():
		return badBody("%s goes on after the end of its JSON value", what)
	}
	return nil
}

func badJSON(err error, what string) *requestError {
	var kind *kindError
	switch {
	case !errors.As(err, &kind):
		return badBody("%s is %s", what, err)
	case kind.field == "":
		return badBody("%s must be %s", what, kind.want)
	}
	return badBody("the field %s", kind)
}

// readParams reads a request as GraphQL over HTTP has it. null is as good as absent; names are told apart by case, and those
// that we do not know are left alone.
func readParams(in *jsonvalue.Reader, p *graphql.RawParams) error {
	if in.Kind() == 'n' {
		return in.Null()
	}
	if err := kind(in, "", '{', "a JSON object"); err != nil {
		return err
	}
	return in.Object(func(name []byte) error {
		switch string(name) {
		case "query":
			return readString(in, "query", &p.Query)
		case "operationName":
			return readString(in, "operationName", &p.OperationName)
		case "variables":
			return readObject(in, "variables", &p.Variables)
		case "extensions":
			return readObject(in, "extensions", &p.Extensions)
		}
		_, err := in.Value()
		return err
	})
}

// readParameter reads a parameter of a URL that is an object; nothing at all is as good as null.
func readParameter(text, name string, into *map[string]any) *requestError {
	if text == "" {
		return nil
	}
	in, bad := open([]byte(text))
	if bad != nil {
		return bad
	}
	return finish(&in, readObject(&in, "", into), "the parameter "+name)
}

func readString(in *jsonvalue.Reader, field string, into *string) (err error) {
	if in.Kind() == 'n' {
		*into = ""
		return in.Null()
	}
	if err := kind(in, field, '"', "a string"); err != nil {
		return err
	}
	*into, err = in.String()
	return err
}

func readObject(in *jsonvalue.Reader, field string, into *map[string]any) (err error) {
	if in.Kind() == 'n' {
		*into = nil
		return in.Null()
	}
	want := "an object"
	if field == "" {
		want = "a JSON object"
	}
	if err := kind(in, field, '{', want); err != nil {
		return err
	}
	*into, err = in.Map()
	return err
}

// kind refuses a value that begins otherwise. What begins no value at all is for the reader to refuse.
func kind(in *jsonvalue.Reader, field string, first byte, want string) error {
	if in.Kind() == first {
		return nil
	}
	if _, err := in.Value(); err != nil {
		return err
	}
	return &kindError{field: field, want: want}
}
