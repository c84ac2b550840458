# ATTEND_PAGE_SOURCE: a source file of the command that embeds the page of web/, compressed with gzip. Built without the
# page, it embeds none, and the server says so.
set(ATTEND_PAGE_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/page_data.cpp)
if(ATTEND_WEB_PAGE)
  find_program(GZIP_EXECUTABLE NAMES gzip REQUIRED)
  set(packed_page ${CMAKE_CURRENT_BINARY_DIR}/page.html.gz)
  set(web_target "")
  if(TARGET web)  # a page from web/prebuilt/ is not built
    set(web_target web)
  endif()
  add_custom_command(
    OUTPUT ${packed_page}
    BYPRODUCTS ${CMAKE_CURRENT_BINARY_DIR}/page_stamp.h
    COMMAND ${GZIP_EXECUTABLE} -9 -n -c ${ATTEND_WEB_PAGE} > ${packed_page}
    COMMAND ${CMAKE_COMMAND} -E echo_append "// " > ${CMAKE_CURRENT_BINARY_DIR}/page_stamp.h
    COMMAND ${CMAKE_COMMAND} -E sha1sum page.html.gz >> ${CMAKE_CURRENT_BINARY_DIR}/page_stamp.h
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
    DEPENDS ${web_target} ${ATTEND_WEB_PAGE}
    COMMENT "Compressing the page")
  configure_file(${CMAKE_CURRENT_LIST_DIR}/page_data.cpp.in ${ATTEND_PAGE_SOURCE} @ONLY)
  set_source_files_properties(${ATTEND_PAGE_SOURCE} PROPERTIES OBJECT_DEPENDS ${packed_page})
else()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/page_none.cpp.in ${ATTEND_PAGE_SOURCE} @ONLY)
endif()
