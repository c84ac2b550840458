# Bundles the page of web/ into one file. Defines ATTEND_WEB_PAGE, the path of that file, and the target `web`. A
# release archive contains the built page in web/prebuilt/, so that it needs no Node. If there is neither that folder nor
# Node, prints a message and turns ATTEND_WEB off.
option(ATTEND_WEB "Build the page that shows what a model attends to (needs Node 18 and npm)" ON)
set(ATTEND_WEB_PAGE "")
set(web_folder ${PROJECT_SOURCE_DIR}/web)
set(web_prebuilt ${web_folder}/prebuilt/index.html)

if(ATTEND_WEB AND EXISTS ${web_prebuilt})
  message(STATUS "web: using the page in web/prebuilt; delete that folder to build the page from its sources")
  set(ATTEND_WEB_PAGE ${web_prebuilt})
elseif(ATTEND_WEB)
  find_program(NODE_EXECUTABLE NAMES node nodejs)
  find_program(NPM_EXECUTABLE NAMES npm)
  if(NOT NODE_EXECUTABLE OR NOT NPM_EXECUTABLE)
    message(STATUS "web: Node or npm is missing, so the page is left out (Debian: apt install nodejs npm)")
    set(ATTEND_WEB OFF)
  endif()
endif()

if(ATTEND_WEB AND NOT ATTEND_WEB_PAGE)
  set(ATTEND_WEB_PAGE ${web_folder}/dist/index.html)
  file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS ${web_folder}/src/*)
  # npm's record of the installed packages. npm ci runs again if it is older than the lock file.
  set(web_modules ${web_folder}/node_modules/.package-lock.json)
  add_custom_command(
    OUTPUT ${web_modules}
    COMMAND ${CMAKE_COMMAND} -DNPM=${NPM_EXECUTABLE} -DFOLDER=${web_folder}
            -P ${PROJECT_SOURCE_DIR}/cmake/npm_ci.cmake
    DEPENDS ${web_folder}/package.json ${web_folder}/package-lock.json
    WORKING_DIRECTORY ${web_folder}
    COMMENT "web: npm ci")
  add_custom_command(
    OUTPUT ${ATTEND_WEB_PAGE}
    COMMAND ${NPM_EXECUTABLE} run --silent build
    DEPENDS ${web_sources} ${web_modules} ${web_folder}/build.mjs ${web_folder}/tsconfig.json
    WORKING_DIRECTORY ${web_folder}
    COMMENT "web: the page")
  add_custom_target(web DEPENDS ${ATTEND_WEB_PAGE})
endif()
