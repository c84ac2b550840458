# Writes the linker's version script of the shared library from the public headers: awk -f exports.awk HEADER…
# Every name declared in namespace attend is exported, with the members, vtable and typeinfo of a class; all other
# symbols are local: private functions, instantiated templates of the standard library, third-party code.
#
# The headers are formatted by clang-format: in a namespace, a declaration begins in the first column, and its other lines
# do not. A mangled name begins with the lengths and names of its scopes, so `_ZN6attend7softmax*` matches the function
# attend::softmax alone and `_ZN6attend6Tensor*` the members of the class attend::Tensor.

function declared(name) { if (name != "") names[name] = 1 }

FNR == 1 { depth = 0 }
/^namespace / { ++depth; next }
/^}  \/\/ namespace/ { --depth; next }
depth != 1 || !/^[A-Za-z_]/ || /^(template|using|requires|extern)[ <]/ { next }
/^(class|struct|enum)[ :]/ {
  line = $0
  sub(/^(enum +class|enum|class|struct) +/, "", line)
  match(line, /^[A-Za-z_0-9]+/)
  declared(substr(line, 1, RLENGTH))
  next
}
/operator/ { next }
/\(/ {
  line = $0
  sub(/\(.*/, "", line)
  if (match(line, /[A-Za-z_0-9]+$/)) declared(substr(line, RSTART, RLENGTH))
}

END {
  print "{"
  print "  global:"
  for (name in names) {
    scope = "N6attend" length(name) name "*;"
    nested = "NK6attend" length(name) name "*;"
    print "    _Z" scope " _Z" nested " _ZTI" scope " _ZTS" scope " _ZTV" scope
  }
  print "    _ZN6attend[a-z][a-z]E*;"  # operators, whose mangled names are two letters
  print "  local:"
  print "    *;"
  print "};"
}
