# Writes a C++ file that defines graft::FUNCTION() of HEADER with the bytes of files, for a build step:
#   cmake -DOUT=x.cc -DHEADER=a/b.h -DFUNCTION=Name "-DFILES=name=path|name=path" -P embed.cmake
# A string literal is read many times as fast as an array of numbers.
string(REPLACE "|" ";" files "${FILES}")
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nnamespace graft {\n\n"
  "std::span<const EmbeddedFile> ${FUNCTION}() {\n  static constexpr EmbeddedFile kFiles[] = {\n")
foreach(file ${files})
  string(REPLACE "=" ";" pair "${file}")
  list(GET pair 0 name)
  list(GET pair 1 path)
  file(READ ${path} bytes)
  file(APPEND ${OUT} "{\"${name}\", R\"graft_file(")
  file(APPEND ${OUT} "${bytes}")
  file(APPEND ${OUT} ")graft_file\"},\n")
endforeach()
file(APPEND ${OUT} "  };\n  return kFiles;\n}\n\n}  // namespace graft\n")
